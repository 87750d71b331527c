#!/bin/sh
# The tests, against the database that PGDATABASE and the like name: first as they are, without OpenTelemetry unless the system has it;
# then those of spans, in a process of their own, with what JOBQ_OPENTELEMETRY names (scripts/opentelemetry.sh).
set -eu
cd "$(dirname "$0")/.."
PYTHONPATH=src /usr/bin/python3 -W ignore -m unittest discover -s tests
PYTHONPATH=src:tests${JOBQ_OPENTELEMETRY:+:$JOBQ_OPENTELEMETRY} exec /usr/bin/python3 -W ignore -m unittest test_tracing
