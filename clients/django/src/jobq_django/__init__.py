"""Runs Django tasks on jobq, the job queue in PostgreSQL. Enqueues use Django's connection, so each enqueue is part of its
transaction."""

from .task import Task, task

__version__ = "0.1.0"

__all__ = ["Task", "task"]
