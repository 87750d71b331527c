"""Workers and producers for jobq, the job queue in PostgreSQL, with psycopg 3."""

__version__ = "0.1.0"   # before the imports, because some of them use it

from .batches import acreate_batch, aget_batch, aseal_batch, create_batch, get_batch, seal_batch
from .cluster import Cluster
from .combined import AsyncCombinedEnqueue, CombinedEnqueue
from .enqueue import (Enqueued, aenqueue, aenqueue_jobs, aenqueue_many, enqueue, enqueue_jobs, enqueue_many)
from .errors import Cancelled, Fail, Lost, OptionError, Release, Snooze, Stop, Stopping, Waiting
from .job import TimedOut
from .kinds import Kind
from .middleware import Enqueuing, use
from .options import Options, options_of_environment
from .aio import AsyncJob, AsyncWorker
from .serve import serve
from .worker import Job, Worker

__all__ = [
    "AsyncCombinedEnqueue", "AsyncJob", "AsyncWorker", "Cancelled", "Cluster", "CombinedEnqueue", "Enqueued", "Enqueuing", "Fail", "Job", "Kind", "Lost",
    "OptionError", "Options", "Release", "Snooze", "Stop", "Stopping", "TimedOut", "Waiting", "Worker", "acreate_batch", "aenqueue",
    "aenqueue_jobs", "aenqueue_many", "aget_batch", "aseal_batch", "create_batch", "enqueue", "enqueue_jobs", "enqueue_many", "get_batch",
    "options_of_environment", "seal_batch", "serve", "use",
]
