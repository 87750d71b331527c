"""A whole process that is a worker."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import NoReturn, Union

from .aio import AsyncWorker
from .worker import Worker


def serve(worker: Union[Worker, AsyncWorker]) -> NoReturn:
    """Works until SIGTERM or SIGINT, and ends the process: with status 0 when everything has been reported. Handlers that were
    given up when the grace was over do not keep it; without them it ends as any other, with what atexit has."""
    if isinstance(worker, AsyncWorker):
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        status = loop.run_until_complete(worker.run())
    else:
        status = worker.run()
    if worker.left_handlers:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
