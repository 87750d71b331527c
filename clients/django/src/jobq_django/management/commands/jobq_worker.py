"""manage.py jobq_worker: serves a queue until SIGTERM or SIGINT."""

import logging
import sys

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils.connection import ConnectionDoesNotExist

import jobq
from jobq.cli import work
from jobq_django.worker import make_worker



OPTIONS = {name: option for name, option in work.OPTIONS.items() if name not in ("versions", "capabilities")}


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
