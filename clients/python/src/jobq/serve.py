"""A whole process that is a worker, or several."""

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
    """Works until SIGTERM or SIGINT, and ends the process: with status 0 when everything has been reported. The workers are all of one
    kind. One that ends with an error stops the others gracefully, and then the process. Handlers that were given up when the grace was
    over do not keep it; without them it ends as any other, with what atexit has."""
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
