#!/bin/bash
# One worker of the demonstration's workflow. The job counts the files, spawns jobs that compute the digests of three files, waits
# for them, and combines their results. Each step is saved together with what it writes, so that the next worker that claims the
# job continues after the last step. Runs until SIGTERM. With PAUSE=1, it stops in the middle and waits until it is killed.
# usage: demo_flow.sh NAME    (PGHOST, PGPORT, PGUSER, and PGDATABASE select the server)
set -u
. "$(dirname "$0")/demo_session.sh"

step() {  # job lease name result
    ask "SELECT state FROM jobq_step($1, $2, '$3');"
    [ "$answer" = run ] || return 0
    ask "BEGIN;
         INSERT INTO flow_effects VALUES ('$3', '$name');
         SELECT state FROM jobq_step_done($1, $2, '$3', $4);
         COMMIT;"
}

flow() {  # job lease
    local ids
    step "$1" "$2" count 'to_jsonb((SELECT count(*) FROM files))'
    ask "SELECT job_ids FROM jobq_spawn($1, $2, 'split', (SELECT jsonb_agg(jsonb_build_object('queue', 'hashes', 'kind', 'sha256',
             'payload', jsonb_build_object('file', f.name))) FROM (SELECT name FROM files ORDER BY n LIMIT 3) f));"
    ids=$answer
    pause 'in the middle of a workflow, after its steps count and split'
    ask "SELECT state FROM jobq_await_jobs($1, $2, '$ids', 'joined', timeout => '10 minutes');"
    [ "$answer" = ready ] || return 0
    step "$1" "$2" sum "(SELECT jsonb_agg(r->'result'->'sha256') FROM jobq_await_jobs($1, $2, '$ids', 'joined') a, jsonb_array_elements(a.results) r)"
    ask "SELECT jobq_complete($1, $2, s.result, must_hold => true) FROM jobq_step($1, $2, 'sum') s;"
}

while [ -z "$stop" ]; do
    ask "SELECT id, lease FROM jobq_claim('flows', '$name');"
    case $answer in *ERROR*) echo "$name: $answer" >&2; exit 1 ;; esac
    if [ -z "$answer" ]; then
        sleep 0.05
        continue
    fi
    IFS=$'\t' read -r id lease <<<"$answer"
    flow "$id" "$lease"
done
