#!/bin/bash
# Tests of worker.sh in the database that the environment selects: no program that it starts has a lease, a result, or an error as
# an argument, because every user of the machine can see the arguments.
set -eu
cd "$(dirname "$0")"
here=$PWD
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
export JOBQ_QUEUE=shell_test
passed=0 failed=0
check() {  # name command...
    local name=$1 status=0
    shift
    "$@" >&2 || status=$?
    if [ $status = 0 ]; then echo "ok - $name"; passed=$((passed + 1)); else echo "not ok - $name"; failed=$((failed + 1)); fi
}
ask() { psql -XqAt -v ON_ERROR_STOP=1 -c "$1"; }

psql=$(command -v psql)
mkdir "$directory/bin"
cat >"$directory/bin/psql" <<WRAPPER
#!/bin/bash
printf '%s\n' "\$@" >>"$directory/arguments"
exec "$psql" "\$@"
WRAPPER
chmod 755 "$directory/bin/psql"
cat >"$directory/handlers.sh" <<'HANDLERS'
handle_good() { step one 'SELECT 1' '"secret step"' >/dev/null; progress '"secret progress"'; echo '"secret result"'; }
handle_own() { echo '"secret own"' >result; completing 'SELECT :'\''text'\''' text='secret value'; }
handle_bad() { echo 'secret error' >&2; return 1; }
HANDLERS

jobs=$(ask "SELECT string_agg(jobq_enqueue('shell_test', kind => k, max_attempts => 1)::text, ',') FROM unnest('{good,own,bad}'::text[]) k")
PATH=$directory/bin:$PATH bash "$here/worker.sh" "$directory/handlers.sh" 2>"$directory/log" &
worker=$!
for _ in {1..1200}; do
    [ "$(ask "SELECT count(*) FROM jobq.jobs WHERE id IN ($jobs) AND status > 'processing'")" != 3 ] || break
    sleep 0.1
done
lease=$(ask "SELECT max(lease) FROM jobq.attempts WHERE job_id IN ($jobs)")
check 'all jobs have run' \
    [ "$(ask "SELECT string_agg(coalesce(result::text, error), ', ' ORDER BY id) FROM jobq.jobs WHERE id IN ($jobs)")" = '"secret result", "secret own", secret error' ]
kill -TERM "$worker"
check 'the worker ends' wait "$worker"
check 'a lease has many digits' grep -qE '^[0-9]{12}' <<<"$lease"
check 'no argument has a result, a value, or an error' eval '! grep secret "$directory/arguments"'
check 'no argument has a lease' eval '! grep -E "[0-9]{12}" "$directory/arguments"'
[ $failed = 0 ] || cat "$directory/log" >&2
echo "$passed passed, $failed failed"
[ $failed = 0 ]
