"""Runs enqueued tasks in tests, in the test's own transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable, List, Optional

from django.db import transaction

import jobq
from jobq.testing import Ended
from jobq.testing import drain as drain_on

from .database import alias, connection
from .worker import handlers


def drain(queue: str = "default", *, now: Optional[datetime] = None, using: Optional[str] = None) -> List[Ended]:
    """Runs tasks one by one in the calling thread until none is claimable. Also works inside a TestCase. now sets the clock: jobs
    and retries that are due by then also run. If an attempt fails, its writes are rolled back."""
    def in_savepoint(perform: Callable[[jobq.Job], Any]) -> Callable[[jobq.Job], Any]:
        def call(job: jobq.Job) -> Any:
            with transaction.atomic(using=using or alias()):
                return perform(job)
        return call

    return drain_on(connection(using), handlers(using, in_savepoint), queue, now=now)
