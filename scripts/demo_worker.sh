#!/bin/bash
# One worker of the demonstration. It claims jobs in batches of four, computes the SHA-256 of the file that each job names, and
# completes the job in the same transaction in which it writes the result. Runs until SIGTERM. With PAUSE=1, it completes the
# first job of a batch and waits until it is killed.
# usage: demo_worker.sh NAME    (PGHOST, PGPORT, PGUSER, and PGDATABASE select the server)
set -u
. "$(dirname "$0")/demo_session.sh"

work() {  # job lease attempt fails file
    if [ "$3" -le "$4" ]; then
        ask "SELECT jobq_fail($1, $2, 'attempt $3 fails on purpose');"
        return
    fi
    local digest
    digest=$(sha256sum <"$5") || { ask "SELECT jobq_fail($1, $2, 'cannot read the file');"; return; }
    digest=${digest%% *}
    # must_hold: if another worker has claimed the job in the meantime, this call raises an error, and the result is rolled back.
    ask "BEGIN;
         INSERT INTO effects (job_id, worker) VALUES ($1, '$name');
         SELECT jobq_complete($1, $2, '{\"sha256\": \"$digest\"}', must_hold => true);
         COMMIT;"
    case $answer in *ERROR*) echo "$name: $answer" >&2 ;; esac
}

while [ -z "$stop" ]; do
    ask "SELECT id, lease, attempt, coalesce((payload->>'fails')::int, 0), payload->>'file'
         FROM jobq_claim('hashes', '$name', batch => 4);"
    case $answer in *ERROR*) echo "$name: $answer" >&2; exit 1 ;; esac
    if [ -z "$answer" ]; then
        sleep 0.05
        continue
    fi
    jobs=$answer
    left=$(wc -l <<<"${jobs%$'\n'}")
    while IFS=$'\t' read -r id lease attempt fails file; do
        # The heartbeat keeps the leases of the other jobs in the batch, however slow the machine is.
        ask "SELECT count(*) FROM jobq_heartbeat_worker('$name');"
        work "$id" "$lease" "$attempt" "$fails" "$file"
        left=$((left - 1))
        [ "$left" = 0 ] || pause "while it held $left job$([ "$left" = 1 ] || echo s)"
    done <<<"${jobs%$'\n'}"
done
