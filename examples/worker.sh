#!/bin/bash
# A jobq worker in shell that runs a command for each job of a queue, with the payload on its standard input.
# usage: worker.sh QUEUE COMMAND [ARGUMENT...]      connects with PGHOST, PGPORT, PGUSER, and PGDATABASE, as psql does
#
# Exit status 0 completes the job, with the output of the command as the result. Any other status fails the job, and it is
# retried. The worker kills the command of a job that is canceled or whose lease is lost. After SIGTERM the worker finishes the
# current job and exits; while it waits for a job, it exits at once.
set -u
queue=$1
shift
worker=$(hostname)-$$
files=$(mktemp -d) || exit 1   # accessible to our user only
# Only the worker itself deletes the files: bash can also run this trap in a background process that is killed as soon as it starts.
trap '[ "$BASHPID" != $$ ] || rm -rf "$files"' EXIT
stop=
waiting=

# Runs SQL that names its values as :'value'; psql quotes them. It reads the values from its environment, because every user of the
# machine can see the arguments of a program.
sql() (  # sql TEXT name=value...
    text=$1
    shift
    for value; do
        export "value_$value"
        text="\\getenv ${value%%=*} value_${value%%=*}"$'\n'$text
    done
    exec psql -XqAt -F $'\t' -v ON_ERROR_STOP=1 <<<"$text"
)

# Converts its input to text that the server accepts: valid UTF-8 without NUL, even if a character was cut off.
text() { iconv -f UTF-8 -t UTF-8 -c 2>/dev/null | tr -d '\000'; }

# Sends heartbeats in the background while the command runs. $$ is the worker. If the worker was killed, no process can report on
# the job, so the heartbeats end and the command is killed.
heartbeat() {  # job lease seconds pid-of-command
    local answer
    while sleep "$3"; do
        kill -0 $$ 2>/dev/null || { kill -TERM -- "-$4"; return; }
        answer=$(sql "SELECT jobq_heartbeat(:job, :lease)" job="$1" lease="$2") || continue
        if [ "$answer" != held ]; then
            echo "$answer" >"$files/state"
            kill -TERM -- "-$4" 2>/dev/null
            return
        fi
    done
}

run() {  # job lease seconds payload; runs the command in a process group of its own
    local job=$1 lease=$2 status command beats
    : >"$files/state"
    set -m
    "${COMMAND[@]}" <<<"$4" >"$files/output" 2>"$files/errors" &
    command=$!
    heartbeat "$job" "$lease" "$3" "$command" &
    beats=$!
    set +m
    # A signal to the worker interrupts "wait", but the command continues.
    while kill -0 "$command" 2>/dev/null; do wait "$command"; done
    wait "$command"
    status=$?
    kill -TERM -- "-$beats" 2>/dev/null
    wait "$beats" 2>/dev/null
    local answer
    answer=$(cat "$files/state")
    if [ "$answer" = lost ] || [ "$answer" = gone ]; then
        echo "job $job: $answer"
    elif [ "$status" = 0 ]; then
        echo "job $job: completed: $(sql "SELECT jobq_complete(:job, :lease, to_jsonb(:'out'::text))" \
            job="$job" lease="$lease" out="$(head -c 10000 "$files/output" | text)")"
    else
        # If the job was canceled, this makes it canceled; otherwise the job is retried or has failed.
        echo "job $job: $(sql "SELECT jobq_fail(:job, :lease, :'error')" \
            job="$job" lease="$lease" error="exit status $status: $(tail -c 1000 "$files/errors" | text)")"
    fi
}

# Waits in the server until there may be a job, in a separate psql, so that a signal can interrupt the worker's wait for psql.
await_job() {
    sql "CALL jobq_wait(:'queue', '1 min', worker_id => :'worker')" queue="$queue" worker="$worker" >/dev/null &
    waiting=$!
    wait "$waiting" || [ -n "$stop" ] || sleep 2
    waiting=
}

# jobq_wake ends the wait, even a wait that is just about to begin. If jobq is not preloaded, the wait is abandoned.
end() {
    stop=1
    sql "SELECT jobq_wake(:'worker')" worker="$worker" >/dev/null 2>&1 || { [ -z "$waiting" ] || kill "$waiting" 2>/dev/null; }
}
trap end TERM INT

COMMAND=("$@")
while [ -z "$stop" ]; do
    row=$(sql "SELECT id, lease, heartbeat_seconds, payload FROM jobq_claim(:'queue', :'worker')" \
        queue="$queue" worker="$worker") || { sleep 2; continue; }
    if [ -z "$row" ]; then
        await_job
        continue
    fi
    IFS=$'\t' read -r job lease seconds payload <<<"$row"
    run "$job" "$lease" "$seconds" "$payload"
done
