"""Runs a process that consists of one or more workers."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import List, NoReturn, Union

from . import aio
from .aio import AsyncWorker
from .errors import OptionError
from .worker import Worker, run_all


def serve(*workers: Union[Worker, AsyncWorker]) -> NoReturn:
    """Works until SIGTERM or SIGINT, then ends the process, with status 0 if everything has been reported. All workers must be of
    the same class. If a worker ends with an error, the others and then the process stop gracefully. Handlers that still run after
    the grace period do not keep the process alive, and then atexit functions do not run; otherwise the process exits normally."""
    if not workers:
        raise OptionError("serve() needs a worker")
    plain: List[Worker] = [worker for worker in workers if isinstance(worker, Worker)]
    asynchronous: List[AsyncWorker] = [worker for worker in workers if isinstance(worker, AsyncWorker)]
    if plain and asynchronous:
        raise OptionError("serve() takes workers of one kind: some are Workers, and some are AsyncWorkers")
    if asynchronous:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        status = loop.run_until_complete(aio.run_all(asynchronous))
    else:
        status = run_all(plain)
    if any(worker.left_handlers for worker in workers):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
