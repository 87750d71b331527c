#!/bin/sh
# From a bare Debian system to the first completed job: installs packages of jobq and of PostgreSQL, preloads the library, and runs
# the statements of the quick start. Prints the time that it took. Changes the system, so run it in a new one:
#   first_job.sh VERSION PACKAGE...
set -eu
version=$1
shift
since() { echo "$(($(date +%s) - $1)) s"; }
sql() { runuser -u postgres -- psql -XqAt -v ON_ERROR_STOP=1 -c "$1"; }

started=$(date +%s)
apt-get -q update
apt-get -q -y install --no-install-recommends "$@"
packages=$(since "$started")
pg_conftool "$version" main set shared_preload_libraries jobq
pg_ctlcluster "$version" main start
sql 'CREATE EXTENSION jobq'
id=$(sql "SELECT jobq_enqueue('emails', '{\"to\": \"ada@example.com\"}', kind => 'welcome')")
sql "SELECT jobq_complete(id, lease, '{\"message\": \"250 OK\"}') FROM jobq_claim('emails', 'worker-1')" | grep -qx t
[ "$(sql "SELECT status FROM jobq_get($id)")" = completed ]
[ "$(sql "SELECT count(*) FROM jobq.background_workers WHERE database IS NULL")" = 1 ]
took=$(since "$started")
pg_ctlcluster "$version" main stop
echo "from the package to the first job: $took, of which apt-get took $packages"
