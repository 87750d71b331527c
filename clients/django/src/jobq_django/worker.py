"""A worker that runs tasks in threads. The threads use Django's connections."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from django.conf import settings
from django.db import close_old_connections, reset_queries

import jobq

from .database import worker_parameters
from .task import Task, registry


def make_worker(using: Optional[str] = None, **options: Any) -> jobq.Worker:
    """Returns a worker for all tasks that have been imported. For claims and heartbeats, the worker opens its own psycopg
    connections."""
    settled: Dict[str, Any] = {"error_details": getattr(settings, "JOBQ_ERROR_DETAILS", True), "on_error": getattr(settings, "JOBQ_ON_ERROR", None)}
    return jobq.Worker(handlers=handlers(using, apart), connect_options=worker_parameters(using), **{**settled, **options})


def handlers(using: Optional[str], around: Callable[[Callable[[jobq.Job], Any]], Callable[[jobq.Job], Any]]
             ) -> Dict[str, Callable[[jobq.Job], Any]]:
    return {name: around(_of(task, using).perform) for name, task in registry.items()}


def _of(task: Task, using: Optional[str]) -> Task:
    return task if using is None else task.using(database=using)


def apart(perform: Callable[[jobq.Job], Any]) -> Callable[[jobq.Job], Any]:
    """Wraps perform so that broken or expired connections are closed before and after each job, as Django does for each request."""
    def call(job: jobq.Job) -> Any:
        reset_queries()
        close_old_connections()
        try:
            return perform(job)
        finally:
            close_old_connections()
    return call
