#!/bin/bash
# The demonstration. It starts a throwaway server with jobq preloaded, and enqueues one job per header file of the server, and
# three more by a schedule. One of four worker processes is killed with SIGKILL while it holds jobs. In a workflow, a worker is
# killed in the middle, and another worker finishes its job. Other jobs are handled by a function in the server, whose process is
# terminated. Checks every result and exits with an error if anything is wrong. KEEP=1 keeps the server running until you press
# Enter.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh

scripts/setup.sh
# The dashboard is only for KEEP=1. The demonstration works without it.
dashboard=
if [ "${KEEP-}" = 1 ] && scripts/setup.sh dashboard; then dashboard=1; fi
find_pg_config
echo "building jobq for $("$PG_CONFIG" --version)"
mkdir -p build
make -s -j"$(nproc)" all >build/build.log 2>&1 || { cat build/build.log; exit 1; }

scratch_begin demo
scratch_tree
cp scripts/demo_{session,worker,flow}.sh "$SCRATCH/"
chmod 755 "$SCRATCH"/demo_*.sh
if [ -n "$dashboard" ]; then
    mkdir "$SCRATCH/web"
    cp -r web/bin web/lib web/public web/node_modules web/package.json "$SCRATCH/web/"
fi
headers=$("$PG_CONFIG" --includedir-server)
scratch_give "$SCRATCH/work"
cd "$SCRATCH"
if ! run_as test -x "$headers"; then
    cp -rL "$headers" "$SCRATCH/headers"
    headers=$SCRATCH/headers
fi
find "$headers" -type f -name '*.h' | LC_ALL=C sort >files
started=$(date +%s%N)
seconds() {
    local tenths=$((($(date +%s%N) - started) / 100000000))
    printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}
sql() { run_as "$SCRATCH_BIN/psql" -XqAt -v ON_ERROR_STOP=1 "$@"; }
say() { printf '%5s s  %s\n' "$(seconds)" "$*"; }

declare -A pid

say "starting a server of its own, owned by $SCRATCH_USER, jobq preloaded"
scratch_server server "shared_preload_libraries = 'jobq'"
sql -c 'CREATE DATABASE demo' && export PGDATABASE=demo
sql >/dev/null <<'SQL'
CREATE EXTENSION jobq;
SELECT jobq_create_queue('hashes', backoff_base => '500 ms', heartbeat_timeout => '2 s');
CREATE TABLE effects (job_id bigint NOT NULL, worker text NOT NULL, done_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE flow_effects (step text NOT NULL, worker text NOT NULL);
SELECT jobq_create_queue('flows', heartbeat_timeout => '2 s');
CREATE TABLE files (n int GENERATED ALWAYS AS IDENTITY, name text NOT NULL);
\copy files (name) from 'files'
-- One job per file. The tenth job is delayed by three seconds, and the twentieth fails in its first two attempts.
SELECT count(*) FROM (SELECT jobq_enqueue('hashes', jsonb_build_object('file', name, 'fails', CASE n WHEN 20 THEN 2 ELSE 0 END),
                          kind => 'sha256', run_at => CASE n WHEN 10 THEN clock_timestamp() + interval '3 s' END)
                      FROM files ORDER BY n OFFSET 0) e \g work/enqueued
-- The first file again, three times, once per second. One of the workers is killed in the meantime.
SELECT jobq_schedule('again', '@every 1s', 'hashes', jsonb_build_object('file', name), kind => 'sha256', missed => 'all',
                     starts_at => clock_timestamp() + interval '1 s', ends_at => clock_timestamp() + interval '3.5 s')
FROM files WHERE n = 1;
-- A function in the database runs these jobs, which count something. No worker process is needed for it.
CREATE ROLE clerk LOGIN;
CREATE TABLE tally (counted int NOT NULL);
INSERT INTO tally VALUES (0);
GRANT ALL ON tally TO clerk;
CREATE FUNCTION tick_off(job jsonb) RETURNS void LANGUAGE sql AS 'UPDATE tally SET counted = counted + 1; SELECT pg_sleep(0.01)';
SELECT jobq_set_handler('desk', 'count', 'tick_off(jsonb)', run_as => 'clerk');
SELECT count(jobq_enqueue('desk', kind => 'count')) FROM generate_series(1, 200);
SQL
runs=3
handled=200
first=$(head -n 1 files)
for ((n = 0; n < runs; n++)); do echo "$first"; done >>files
parts=3   # number of jobs that the workflow spawns
head -n "$parts" files >parts
sql -c "SELECT jobq_enqueue('flows', kind => 'three digests')" >/dev/null
enqueued=$(run_as cat work/enqueued)
say "enqueued $enqueued jobs, one per file under $headers; a schedule follows with $runs, one a second"

# $! is the process ID of the command itself, because setpriv and env do not fork as runuser does.
in_background() {  # command with its arguments
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid="$SCRATCH_USER" --regid="$(id -g "$SCRATCH_USER")" --clear-groups "${scratch_home[@]}" "$@" &
    else
        "$@" &
    fi
}
start() {  # script name
    in_background "./$1" "$2"
    pid[$2]=$!
}
for name in alice bob dave; do start demo_worker.sh "$name"; done
PAUSE=1 start demo_worker.sh carol
PAUSE=1 start demo_flow.sh erin
stop_workers() {
    local name
    for name in "${!pid[@]}"; do kill -TERM "${pid[$name]}" 2>/dev/null || true; done
    wait || true
}
scratch_hook=stop_workers

# Kills a worker that has paused.
kill_paused() {  # name
    local try
    for try in {1..600}; do
        if [ -s "work/$1.paused" ]; then
            kill -KILL "${pid[$1]}"
            wait "${pid[$1]}" 2>/dev/null || true
            unset "pid[$1]"
            say "killed $1 with SIGKILL $(cat "work/$1.paused")"
            return 0
        fi
        sleep 0.1
    done
    echo "$1 never paused in the middle of its work" >&2
    return 1
}
say "started the workers alice, bob, carol, dave, and erin, each a process of its own"
kill_paused carol
sql -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND query ~ 'tick_off'" >/dev/null
say "terminated the process in the server that handles $handled jobs"
kill_paused erin
start demo_flow.sh frank

told=
quiet=0
while [ $quiet -lt 40 ]; do   # gives up if nothing happens for 20 seconds
    IFS=' ' read -r completed failed running pending scheduled rescued to_come < <(sql -F ' ' -c "
        SELECT count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
               count(*) FILTER (WHERE status = 'processing'), count(*) FILTER (WHERE status = 'pending'),
               count(*) FILTER (WHERE status = 'scheduled'),
               (SELECT count(*) FROM jobq.attempts WHERE outcome = 'lost'),
               (SELECT count(next_run) FROM jobq.schedules) + (SELECT count(*) FROM jobq.jobs WHERE queue = 'flows' AND status <= 'processing')
        FROM jobq.jobs WHERE queue = 'hashes'")
    news="completed $completed, running $running, waiting $pending, for later $scheduled, rescued $rescued"
    quiet=$((quiet + 1))
    if [ "$news" != "$told" ]; then say "$news"; quiet=0; fi
    told=$news
    if [ $((running + pending + scheduled + to_come)) = 0 ]; then break; fi
    sleep 0.5
done
scratch_hook=
stop_workers
took=$(seconds)

# Compares what the workers reported with the output of sha256sum for the same files.
cat parts >>files
sql -F '  ' -c "SELECT result->>'sha256', payload->>'file' FROM jobq.jobs WHERE queue = 'hashes' AND status = 'completed'" | LC_ALL=C sort >reported
xargs -d '\n' sha256sum <files | LC_ALL=C sort >expected
IFS=' ' read -r enqueued completed retried rescued of_victim by_schedule lost twice late tries counted < <(sql -F ' ' -c "
    SELECT $enqueued + $runs + $parts, count(*) FILTER (WHERE status = 'completed'),
           (SELECT count(*) FROM jobq.attempts WHERE outcome = 'failed'),
           (SELECT count(*) FROM jobq.attempts WHERE outcome = 'lost'),
           (SELECT count(*) FROM jobq.attempts a WHERE outcome = 'lost' AND EXISTS (SELECT FROM effects e WHERE e.job_id = a.job_id)),
           count(DISTINCT metadata->>'scheduled_for'),
           $enqueued + $runs + $parts - (SELECT count(DISTINCT job_id) FROM effects),
           (SELECT count(*) - count(DISTINCT job_id) FROM effects),
           count(*) FILTER (WHERE run_at > created_at + interval '2.9 s' AND started_at >= run_at AND attempts = 1),
           max(attempts) FILTER (WHERE payload->>'fails' = '2'), (SELECT counted FROM tally)
    FROM jobq.jobs WHERE queue = 'hashes'")
flow=$(sql -F ' ' -c "SELECT j.status, (SELECT string_agg(step || ' by ' || worker, ', ' ORDER BY step) FROM flow_effects) FROM jobq.jobs j WHERE j.queue = 'flows'")
sql -c "SELECT jsonb_array_elements_text(result) FROM jobq.jobs WHERE queue = 'flows'" >flow_digests
xargs -d '\n' sha256sum <parts | cut -d ' ' -f 1 >parts_digests

echo
printf '%-10s %6s\n' enqueued "$enqueued" completed "$completed" retried "$retried" rescued "$rescued" \
    scheduled "$by_schedule" handled "$counted" lost "$lost" twice "$twice" seconds "$took"
echo
status=0
wrong() { echo "WRONG: $*"; status=1; }
cmp -s reported expected || { wrong "results differ from sha256sum's"; diff reported expected | head || true; }
[ "$enqueued" = "$(wc -l <files)" ] && [ "$completed" = "$enqueued" ] || wrong "not every job was completed"
[ "$lost" = 0 ] && [ "$twice" = 0 ] || wrong "jobs were lost or done twice"
[ "$of_victim" -gt 0 ] || wrong "no job of the killed worker was rescued"
[ "$retried" = 2 ] && [ "$tries" = 3 ] || wrong "the failing job was not retried twice"
[ "$by_schedule" = "$runs" ] || wrong "the schedule did not run $runs times"
[ "$flow" = "completed count by erin, sum by frank" ] || wrong "the workflow did not continue after its last step: $flow"
cmp -s flow_digests parts_digests || wrong "the workflow has other digests than sha256sum"
[ "$counted" = "$handled" ] || wrong "the handler counted $counted of $handled"
[ "$late" = 1 ] || wrong "the delayed job did not wait"
if [ $status != 0 ]; then
    SCRATCH_KEEP=1
    echo "The end of the server's log:"
    tail -n 20 server.log
else
    echo "All $completed digests agree with sha256sum, among them a delayed job, one that failed twice, those of"
    echo "a schedule, and those that carol held when it was killed. The workflow, whose worker was killed, continued after its last step:"
    sql -F '  ' -c "SELECT to_char(l.at, 'HH24:MI:SS.MS'), l.event, coalesce(l.worker_id, l.detail) FROM jobq.jobs j, jobq_log(j.id) l WHERE j.queue = 'flows'"
fi

# Starts the dashboard with its own role. It runs until this script ends. Sets $address.
start_dashboard() {
    local try
    sql -c "CREATE ROLE dashboard LOGIN" -c "SELECT jobq_grant('dashboard', 'operator')" >/dev/null
    PGUSER=dashboard in_background node web/bin/jobq-web.js --port 0 --allow-changes >dashboard.log 2>&1
    scratch_children+=($!)
    for try in {1..600}; do
        address=$(sed -n 's/^jobq-web: \(http[^ ]*\) .*/\1/p' dashboard.log)
        [ -z "$address" ] || return 0
        sleep 0.1
    done
    cat dashboard.log
    return 1
}

if [ "${KEEP-}" = 1 ]; then
    echo "Look round from another terminal:"
    echo "  $SCRATCH_BIN/psql -h $PGHOST -p $PGPORT -U $PGUSER $PGDATABASE"
    echo "  SELECT * FROM jobq.queue_stats;  SELECT * FROM jobq.attempts;  SELECT * FROM jobq.background_workers;"
    if [ -n "$dashboard" ] && start_dashboard; then echo "The dashboard: $address"; fi
    echo "Press Enter to stop the server and to remove it."
    read -r _ || true
else
    echo "Nothing is left running. To look round with psql, keep the server: make demo KEEP=1"
fi
exit $status
