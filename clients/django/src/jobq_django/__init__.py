"""Tasks of Django on jobq, the job queue in PostgreSQL: enqueued on Django's connection, so a part of its transaction."""

from .task import Task, task

__version__ = "0.1.0"

__all__ = ["Task", "task"]
