#!/bin/sh
# Prints the install script: the fragments in src/sql, in the order of their names, and what follows from the tables
# in the headers named here. scripts/install_script.awk says how.
cd "$(dirname "$0")/.." || exit 1
exec awk -f scripts/install_script.awk src/core/job_status.h src/core/queue_settings.h src/sql/*.sql
