"""The command worker: runs the worker of a Python module."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import logging
import os
import sys
from typing import Any, Callable, Dict, Mapping, Tuple, Union

from .. import AsyncWorker, OptionError, Worker, options_of_environment, serve
from .command import Commands
from .problem import Problem

USAGE = 2
AnyWorker = Union[Worker, AsyncWorker]


def json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be JSON: {text!r}") from None


JSON = """JSON: an object with the slots of each, such as '{"emails": 3, "reports": 1}', or an array, such as '["emails", "reports"]'"""
# Name: (type, help).
OPTIONS: Dict[str, Tuple[Callable[[str], Any], str]] = {
    "queue": (str, "queue to serve; the default is \"default\""),
    "queues": (json_value, f"queues to serve instead of one queue, as {JSON}"),
    "patterns": (json_value, f"patterns of the names of queues to serve, as {JSON}"),
    "queue_order": (str, "order in which the worker claims from several queues: listed, random, or oldest"),
    "slots": (int, "maximum number of jobs that run at the same time"),
    "prefetch": (int, "maximum number of claimed jobs that wait for a slot"),
    "batch": (int, "maximum number of jobs per claim"),
    "versions": (json_value, "job versions that the worker accepts, as a JSON array"),
    "capabilities": (json_value, "capabilities of the worker, as a JSON array"),
    "worker_id": (str, "unique name of this process"),
    "heartbeat_timeout": (float, "lease timeout, in seconds"),
    "heartbeat_interval": (float, "maximum time between two heartbeats, in seconds"),
    "wait_timeout": (float, "timeout of one call to jobq_wait, in seconds"),
    "poll_interval": (float, "poll with pauses of at most this many seconds instead of waiting in the server"),
    "grace": (float, "how long handlers can continue after SIGTERM, in seconds"),
    "liveness_file": (str, "file that the worker touches while it is alive"),
    "liveness_port": (str, "[HOST:]PORT at which the worker answers liveness probes over HTTP"),
}


def add(commands: Commands) -> None:
    command = commands.add("worker", run, "run a worker until SIGTERM or SIGINT", (
        "Imports the module, also from the current directory. The attribute is a jobq.Worker or a jobq.AsyncWorker, which has its own options, or a "
        "dict that maps each kind to its handler; if one of the handlers is a coroutine function, the worker is an AsyncWorker. If an option is not "
        "given, a dict is served with the environment variable of the option, such as JOBQ_QUEUE for --queue. The role needs the profile worker."),
        json=None)
    command.add_argument("target", metavar="MODULE:ATTRIBUTE", help="what to run, such as shop.jobs:worker")
    for name, (kind, text) in OPTIONS.items():
        command.add_argument(f"--{name.replace('_', '-')}", dest=f"option_{name}", type=kind, metavar=name.upper(), help=text)


def run(args: argparse.Namespace) -> int:
    if not logging.getLogger("jobq").hasHandlers():
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    given = {name: getattr(args, f"option_{name}") for name in OPTIONS if getattr(args, f"option_{name}") is not None}
    try:
        serve(_worker(args.target, load(args.target), args.dsn, given))
    except OptionError as error:
        raise Problem(str(error), USAGE) from error


def load(target: str) -> Any:
    """Returns the attribute. An error in the module itself is not caught, because its author needs the traceback."""
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise Problem(f'"{target}" must have the form MODULE:ATTRIBUTE', USAGE)
    sys.path.insert(0, os.getcwd())
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise Problem(f'module "{error.name}" does not exist in the current directory or in the path of Python', USAGE) from error
    try:
        return getattr(imported, attribute)
    except AttributeError as error:
        raise Problem(f'module "{module}" has no attribute "{attribute}"', USAGE) from error


def _worker(target: str, found: Any, dsn: str, given: Mapping[str, Any]) -> AnyWorker:
    if isinstance(found, (Worker, AsyncWorker)):
        if dsn or given:
            raise Problem(f'"{target}" is a worker, which has its own options and connection: set them in the module', USAGE)
        return found
    if not isinstance(found, Mapping):
        raise Problem(f'"{target}" must be a jobq.Worker, a jobq.AsyncWorker, or a dict of handlers; it is of the type '
                      f'"{type(found).__name__}"', USAGE)
    options = {**options_of_environment(), **given}
    if "queue" not in given and ("queues" in options or "patterns" in options):
        options.pop("queue", None)
    if any(map(inspect.iscoroutinefunction, found.values())):
        return AsyncWorker(handlers=found, conninfo=dsn, **options)
    return Worker(handlers=found, conninfo=dsn, **options)
