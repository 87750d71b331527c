"""manage.py jobq_worker: serves a queue until SIGTERM or SIGINT."""

import json
import logging
import sys

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils.connection import ConnectionDoesNotExist

import jobq
from jobq_django.worker import make_worker



def json_value(text):
    """Parses the value of an option. argparse names this function in its message about an invalid value."""
    return json.loads(text)


JSON = """JSON: an object with the slots of each, such as '{"mails": 3, "reports": 1}', or an array, such as '["mails", "reports"]'"""
# Name: (type, help).
OPTIONS = {
    "queue": (str, "queue to serve"),
    "queues": (json_value, f"queues to serve instead of one queue, as {JSON}"),
    "patterns": (json_value, f"patterns of the names of queues to serve, as {JSON}"),
    "queue_order": (str, "order in which the worker claims from several queues: listed, random, or oldest"),
    "slots": (int, "maximum number of tasks that run at the same time"),
    "prefetch": (int, "maximum number of claimed jobs that wait for a slot"),
    "batch": (int, "maximum number of jobs per claim"),
    "worker_id": (str, "unique name of this process"),
    "heartbeat_timeout": (float, "lease timeout, in seconds"),
    "heartbeat_interval": (float, "maximum time between two heartbeats, in seconds"),
    "wait_timeout": (float, "timeout of one call to jobq_wait, in seconds"),
    "poll_interval": (float, "poll with pauses of at most this many seconds instead of waiting in the server"),
    "grace": (float, "how long tasks can continue after SIGTERM, in seconds"),
    "liveness_file": (str, "file that the worker touches while it is alive"),
    "liveness_port": (str, "[HOST:]PORT at which the worker answers liveness probes over HTTP"),
}


class Command(BaseCommand):
    help = ("Runs the tasks of a queue, or of several queues, until SIGTERM or SIGINT. If an option other than --queues and --patterns is not "
            "given, the command uses the environment variable of the same name, such as JOBQ_QUEUE for --queue.")

    def add_arguments(self, parser):
        for name, (kind, text) in OPTIONS.items():
            parser.add_argument(f"--{name.replace('_', '-')}", dest=name, type=kind, help=text)
        parser.add_argument("--database", help="alias in DATABASES; the default is the setting JOBQ_DATABASE")

    def handle(self, *args, **given):
        if not logging.getLogger("jobq").hasHandlers():
            logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
        try:
            options = {**jobq.options_of_environment(),
                       **{name: given[name] for name in OPTIONS if given[name] is not None}}
            if given["queue"] is None and ("queues" in options or "patterns" in options):
                options.pop("queue", None)
            jobq.serve(make_worker(given["database"], **options))
        except (jobq.OptionError, RuntimeError, psycopg.Error, ImproperlyConfigured, ConnectionDoesNotExist) as error:
            raise CommandError(str(error)) from error
