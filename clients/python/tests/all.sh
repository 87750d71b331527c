#!/bin/sh
# Runs the tests against the database that PGDATABASE and so on select, first without OpenTelemetry unless the system provides it.
# The tracing tests follow in a process of their own, with the packages in JOBQ_OPENTELEMETRY (scripts/opentelemetry.sh).
set -eu
cd "$(dirname "$0")/.."
PYTHONPATH=src /usr/bin/python3 -W ignore -m unittest discover -s tests
PYTHONPATH=src:tests${JOBQ_OPENTELEMETRY:+:$JOBQ_OPENTELEMETRY} exec /usr/bin/python3 -W ignore -m unittest test_tracing
