"""manage.py jobq_worker: serves a queue until SIGTERM or SIGINT."""

import logging
import sys

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils.connection import ConnectionDoesNotExist

import jobq
from jobq_django.worker import make_worker

OPTIONS = {"queue": str, "slots": int, "batch": int, "worker_id": str, "heartbeat_timeout": float, "heartbeat_interval": float,
           "wait_timeout": float, "poll_interval": float, "grace": float}


class Command(BaseCommand):
    help = "Works on the tasks of a queue. Options that are missing are those of the environment, JOBQ_QUEUE and so on."

    def add_arguments(self, parser):
        for name, kind in OPTIONS.items():
            parser.add_argument(f"--{name.replace('_', '-')}", dest=name, type=kind)
        parser.add_argument("--database", help="an alias of DATABASES; without, that of the setting JOBQ_DATABASE")

    def handle(self, *args, **given):
        if not logging.getLogger("jobq").hasHandlers():
            logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
        try:
            options = {**jobq.options_of_environment(),
                       **{name: given[name] for name in OPTIONS if given[name] is not None}}
            jobq.serve(make_worker(given["database"], **options))
        except (jobq.OptionError, RuntimeError, psycopg.Error, ImproperlyConfigured, ConnectionDoesNotExist) as error:
            raise CommandError(str(error)) from error
