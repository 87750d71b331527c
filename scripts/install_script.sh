#!/bin/sh
# Prints the install script. scripts/install_script.awk makes it from the fragments in src/sql, in the order of their names, and
# from the tables in the headers named here.
cd "$(dirname "$0")/.." || exit 1
exec awk -f scripts/install_script.awk src/core/job_status.h src/core/queue_settings.h src/sql/*.sql
