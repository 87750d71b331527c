#!/bin/sh
# Runs the tests of the router on three throwaway servers (JOBQ_ROUTER_SERVERS: their directories; see cluster.py).
# JOBQ_ROUTER_TEST: runs only this test.
#   run.sh [SCRIPT ...]
set -u
here=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
[ $# -gt 0 ] || set -- routes.py page.py calls.py signatures.py faults.py addresses.py moves.py dump.py
status=0
for script; do
    "${PYTHON:-/usr/bin/python3}" "$here/$script" || status=1
done
exit $status
