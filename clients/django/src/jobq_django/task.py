"""Tasks: functions that are enqueued as jobs, and that a worker calls."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Optional

from django.db import transaction

import jobq

from .database import alias, connection

OPTIONS = frozenset(inspect.signature(jobq.enqueue).parameters) - {"connection", "kind", "payload"}
registry: Dict[str, "Task"] = {}


def task(function: Optional[Callable[..., Any]] = None, *, name: Optional[str] = None, takes_job: bool = False,
         atomic: bool = False, **options: Any) -> Any:
    """Makes a function a task: @task, or @task(queue="mails", max_attempts=5).

    name       kind of the task's jobs; default: MODULE.FUNCTION
    takes_job  passes the jobq.Job, with check(), set_progress() and so on, as the first argument of the function
    atomic     runs the function and completes its job in one Django transaction, so that its writes in this database happen exactly once
    options    parameters of jobq_enqueue; a function among them is called with the arguments of each enqueue and returns the value"""
    if function is None:
        return functools.partial(task, name=name, takes_job=takes_job, atomic=atomic, **options)
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"a task must be a plain function, not a coroutine function; it is {function!r}")
    made = Task(function, name or f"{function.__module__}.{function.__qualname__}", takes_job, atomic, _checked(options))
    if made.name in registry:
        raise ValueError(f"duplicate task name {made.name!r}")
    registry[made.name] = made
    return functools.update_wrapper(made, function)


@dataclass
class Task:
    function: Callable[..., Any]
    name: str
    takes_job: bool
    atomic: bool
    options: Dict[str, Any] = field(default_factory=dict)
    database: Optional[str] = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function directly, without a job."""
        return self.function(*args, **kwargs)

    def using(self, *, database: Optional[str] = None, **options: Any) -> "Task":
        """Returns the same task with other options."""
        return replace(self, options={**self.options, **_checked(options)}, database=database or self.database)

    def enqueue(self, *args: Any, **kwargs: Any) -> int:
        """Enqueues the task on Django's connection, as part of its open transaction, and returns the job's ID."""
        spec = self.spec(*args, **kwargs)
        return jobq.enqueue(connection(self.database), spec.pop("queue", "default"), spec.pop("payload"), **spec)

    def spec(self, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """Returns the job as an object for jobq.enqueue_jobs(), which enqueues many jobs in one statement."""
        options = {key: value(*args, **kwargs) if callable(value) else value for key, value in self.options.items()}
        return {"kind": self.name, "payload": {"args": list(args), "kwargs": kwargs}, **options}

    def perform(self, job: jobq.Job) -> Any:
        """Runs the task for a job. The worker calls this."""
        payload = job.payload if isinstance(job.payload, dict) else {}
        args, kwargs = payload.get("args", []), payload.get("kwargs", {})
        call = functools.partial(self.function, *([job] if self.takes_job else []), *args, **kwargs)
        if not self.atomic:
            return call()
        with transaction.atomic(using=self.database or alias()):
            result = call()
            job.complete_in(connection(self.database), result)
        return result


def _checked(options: Dict[str, Any]) -> Dict[str, Any]:
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)} of a task; the options are {', '.join(sorted(OPTIONS))}")
    return options
