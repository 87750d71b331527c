"""A worker that calls tasks, in threads with connections of Django's."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from django.db import close_old_connections, reset_queries

import jobq

from .database import worker_parameters
from .task import Task, registry


def make_worker(using: Optional[str] = None, **options: Any) -> jobq.Worker:
    """Of all tasks that have been imported. Its own connections, for claims and heartbeats, are psycopg's."""
    return jobq.Worker(handlers=handlers(using, apart), connect_options=worker_parameters(using), **options)


def handlers(using: Optional[str], around: Callable[[Callable[[jobq.Job], Any]], Callable[[jobq.Job], Any]]
             ) -> Dict[str, Callable[[jobq.Job], Any]]:
    return {name: around(_of(task, using).perform) for name, task in registry.items()}


def _of(task: Task, using: Optional[str]) -> Task:
    return task if using is None else task.using(database=using)


def apart(perform: Callable[[jobq.Job], Any]) -> Callable[[jobq.Job], Any]:
    """As Django does before and after a request: connections that are broken or too old are closed."""
    def call(job: jobq.Job) -> Any:
        reset_queries()
        close_old_connections()
        try:
            return perform(job)
        finally:
            close_old_connections()
    return call
