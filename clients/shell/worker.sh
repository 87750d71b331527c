#!/bin/bash
# A jobq worker in shell that uses psql and runs one job at a time.     usage: worker.sh HANDLERS.sh
#
# HANDLERS.sh defines a function handle_KIND for each kind, and handle_ for jobs without a kind. A handler runs in a process group
# of its own, in the directory $JOB_DIR, with the variables JOB_ID, JOB_LEASE, JOB_KIND, and JOB_ATTEMPT. The file "payload"
# contains the payload, and "progress_before" the last progress that an earlier attempt reported. A handler prints the result as
# JSON. Exit status 0 completes the job; any other status fails it, with the end of the standard error as the message. A handler
# may call
#     progress JSON         reports progress with a heartbeat
#     snooze SECONDS        postpones the job by this time; the attempt is not counted
#     retry_in SECONDS MESSAGE      fails the attempt; the job is retried after this time
#     reject MESSAGE        fails the job permanently
#     completing SQL [name=value...]     runs the SQL and completes the job in one transaction; the result is in the file "result"
#     step NAME SQL RESULT  runs the SQL and saves the result (JSON) in one transaction, once even if the job is retried; prints the result
# A handler gets SIGTERM when it should stop; then the file "stopped" contains the reason: cancel, lost, or stopping.
#
# Options are environment variables, such as JOBQ_QUEUE. The worker connects as psql does, and has one slot. Contract:
# clients/CONTRACT.md.
set -u
export PSQLRC=/dev/null PGCONNECT_TIMEOUT=${PGCONNECT_TIMEOUT-10} PGCLIENTENCODING=UTF8
die() { echo "worker.sh: $*" >&2; exit 1; }
log() { echo "$worker: $*" >&2; }

queue=${JOBQ_QUEUE:-default}
worker=${JOBQ_WORKER_ID:-$(hostname)-$$-$RANDOM$RANDOM}
grace=${JOBQ_GRACE:-25} wait_timeout=${JOBQ_WAIT_TIMEOUT:-30}
# Maximum number of times that the worker gives a job back because the job's own transaction collided with another one. The next
# collision counts as a failed attempt, so that a job that always collides ends.
most_conflicts=10
heartbeat_timeout=${JOBQ_HEARTBEAT_TIMEOUT:-} heartbeat_interval=${JOBQ_HEARTBEAT_INTERVAL:-}
number='^[0-9]{1,9}(\.[0-9]+)?$'
[ "${JOBQ_SLOTS:-1}" = 1 ] || die "option \"slots\" must be 1 because this worker runs one job at a time (start several workers); it is $JOBQ_SLOTS"
for name in grace wait_timeout heartbeat_timeout heartbeat_interval; do
    [[ $name != heartbeat* ]] && least=0 || least=0.01
    [[ $name == heartbeat* && -z ${!name} || ${!name} =~ $number ]] && awk -v n="${!name:-1}" -v least=$least 'BEGIN { exit (n < least) }' ||
        die "option \"$name\" must be a number of seconds, at least $least; it is ${!name}"
done
[[ $worker != backend:* ]] || die "option \"worker_id\" must not begin with \"backend:\"; it is $worker"
[ -n "${1-}" ] || die "usage: worker.sh HANDLERS.sh"
# shellcheck disable=SC1090
. "$1" || exit 1
kinds=$(compgen -A function | sed -n 's/^handle_\(.*\)/"\1"/p' | paste -sd, -)
[ -n "$kinds" ] || die "$1 defines no function handle_KIND"

# Runs SQL from standard input, which refers to values as :'name'. Status 2: no connection; 3: the server rejected the SQL. psql
# reads the values from its environment, because every user of the machine can see the arguments of a program.
sql() (
    text=$(cat)
    for value; do
        export "value_$value"
        text="\\getenv ${value%%=*} value_${value%%=*}"$'\n'$text
    done
    exec psql -XqAt -F $'\t' -v ON_ERROR_STOP=1 -v queue="$queue" -v worker="$worker" -v kinds="{$kinds}" \
        -v timeout="${heartbeat_timeout:+$heartbeat_timeout s}" <<<"$text"
)

# Runs SQL like sql(), but also returns status 2 for errors that may go away, on another connection or on the same one.
try_sql() {
    local status=0 begun=${EPOCHREALTIME/[^0-9]/}
    {
        error=$(sql VERBOSITY=verbose "$@" 2>&1 >&3) || status=$?
    } 3>&1
    [ $status != 0 ] || answered "$begun"
    [[ $status != 3 || ! $error =~ $passing ]] || status=2
    [ -z "$error" ] || sed '/^LOCATION: /d' <<<"$error" >&2
    return $status
}
error='' passing='(ERROR|FATAL|PANIC):  (08|53|57|58|25006|40001|40P01)'

# Makes the worker poll for a while if an answer was late, because waits may hold all connections of a pooler: see "Small pools" in
# clients/CONTRACT.md. psql does not say whether there is a pooler.
answered() {  # time of the request, in microseconds
    local took=$((${EPOCHREALTIME/[^0-9]/} - $1))
    [ -n "$jobs" ] && [ $took -gt "$late_after" ] || return 0
    if [ ! -e "$jobs/polls_until" ]; then
        [ -e "$jobs/has_polled" ] && warning='' || warning='warning: '
        log "${warning}answers take $((took / 1000)) ms, perhaps behind a connection pooler, whose pool may have fewer connections than there" \
            "are workers: polling instead of waiting"
        : >"$jobs/has_polled"
    fi
    echo $((EPOCHSECONDS + 60 + RANDOM % 61)) >"$jobs/polls_until"
}
# Sets late_after: half of the heartbeat interval, at least 2 s and at most 3 s. The limits are higher than in the libraries,
# because the time includes the start of psql, which takes a second on a busy machine.
limit_answers() {  # heartbeat interval of the job in hand, or nothing
    late_after=$(awk -v a="${1:-6}" -v b="${heartbeat_interval:-6}" -v c="${heartbeat_timeout:-18}" 'BEGIN {
        s = a / 2; if (b / 2 < s) s = b / 2; if (c / 6 < s) s = c / 6
        printf "%d", 1e6 * (s < 2 ? 2 : s > 3 ? 3 : s) }')
}
late_after=3000000

# Sleeps and makes the next pause longer.
rest_longer() {
    sleep "$(awk -v p="$pause" -v r=$RANDOM 'BEGIN { print p * (0.5 + r / 65536) }')"
    pause=$(awk -v p="$pause" 'BEGIN { print p < 2.5 ? 2 * p : 5 }')
}

# Repeats the SQL until it succeeds or the server rejects it.
surely() {
    local input status pause=0.1
    input=$(cat)
    while :; do
        status=0
        try_sql "$@" <<<"$input" || status=$?
        if [ $status != 2 ]; then
            [ $status = 0 ] || [ -z "${JOB_DIR-}" ] || sed '/^LOCATION: /d' <<<"$error" >"$JOB_DIR/refused"
            return $status
        fi
        [ -z "${JOB_DIR-}" ] || touch "$JOB_DIR/again"
        rest_longer
    done
}

# ---- for handlers

progress() { printf '%s' "$1" >"$JOB_DIR/progress.new" && mv "$JOB_DIR/progress.new" "$JOB_DIR/progress"; }
snooze() { echo "snooze $1" >"$JOB_DIR/outcome"; exit 0; }
retry_in() { echo "retry $1" >"$JOB_DIR/outcome"; echo "$2" >&2; exit 1; }
reject() { echo reject >"$JOB_DIR/outcome"; echo "$1" >&2; exit 1; }
completing() {
    local statement=$1 status=0
    shift
    [ -e "$JOB_DIR/result" ] || echo null >"$JOB_DIR/result"
    transaction "$@" <<<"\\set result \`cat '$JOB_DIR/result'\`
BEGIN; $statement; SELECT jobq_complete(:job, :lease, :'result', must_hold => true) \\g /dev/null
COMMIT;" || status=$?
    [ $status != 0 ] || echo done >"$JOB_DIR/outcome"
    exit $status
}
# Runs SQL as the job's transaction. If the transaction collides with another one (40001, 40P01), the outcome is "conflict".
transaction() {  # name=value...
    local status=0
    sql VERBOSITY=verbose job="$JOB_ID" lease="$JOB_LEASE" attempt="$JOB_ATTEMPT" "$@" 2>"$JOB_DIR/transaction.error" || status=$?
    sed '/^LOCATION: /d' "$JOB_DIR/transaction.error" >&2
    ! grep -qE 'ERROR:  (40001|40P01)' "$JOB_DIR/transaction.error" || echo conflict >"$JOB_DIR/outcome"
    return $status
}
step() {
    local state result
    IFS=$'\t' read -r state result < <(surely job="$JOB_ID" lease="$JOB_LEASE" name="$1" \
        <<<"SELECT state, result FROM jobq_step(:job, :lease, :'name')")
    case $state in
        done) printf '%s\n' "$result" ;;
        run)
            transaction name="$1" result="$3" <<<"BEGIN; $2;
SELECT result FROM jobq_step_done(:job, :lease, :'name', :'result');
COMMIT;" || exit 1
            ;;
        *) exit 1 ;;
    esac
}

# ---- a job

# Runs in parallel with the handler. $$ is the worker: if the worker was killed, no process can report on the job, so the
# heartbeats kill the handler and end.
heartbeats() {  # interval, process group of the handler
    local answer status next
    next=$(awk -v i="$1" 'BEGIN { printf "%d", i * 10 }')
    local tenths=0 pause=0.1
    while sleep 0.1; do
        tenths=$((tenths + 1))
        kill -0 $$ 2>/dev/null || { kill -KILL -- "-$2"; return; }
        if [ -e "$JOB_DIR/progress" ]; then
            mv "$JOB_DIR/progress" "$JOB_DIR/progress.sent"
        elif [ $tenths -lt "$next" ]; then
            continue
        fi
        status=0
        local begun=${EPOCHREALTIME/[^0-9]/}
        answer=$(sql job="$JOB_ID" lease="$JOB_LEASE" 2>"$JOB_DIR/heartbeat.error" \
            <<<"\\set progress \`cat '$JOB_DIR/progress.sent' 2>/dev/null || true\`
SELECT jobq_heartbeat(:job, :lease, nullif(:'progress', '')::jsonb)") || status=$?
        if [ $status = 3 ] && [ -e "$JOB_DIR/progress.sent" ]; then
            log "job $JOB_ID: progress was refused: $(head -c 300 "$JOB_DIR/heartbeat.error")"
            rm "$JOB_DIR/progress.sent"
            tenths=$next   # the heartbeat itself has not been sent yet
            continue
        elif [ $status != 0 ]; then
            log "job $JOB_ID: heartbeat failed, trying again: $(head -c 300 "$JOB_DIR/heartbeat.error")"
            [ -e "$JOB_DIR/progress" ] || mv "$JOB_DIR/progress.sent" "$JOB_DIR/progress" 2>/dev/null
            rest_longer
            continue
        fi
        answered "$begun"
        rm -f "$JOB_DIR/progress.sent"
        tenths=0 pause=0.1
        case $answer in
            held) ;;
            cancel) [ -e "$JOB_DIR/stopped" ] || { echo cancel >"$JOB_DIR/stopped"; kill -TERM -- "-$2" 2>/dev/null; } ;;
            finished) return ;;
            *) log "job $JOB_ID: the lease is lost"; echo lost >"$JOB_DIR/stopped"; kill -TERM -- "-$2" 2>/dev/null; return ;;
        esac
    done
}

# Keeps the lease while the report is sent. The answer of a heartbeat is not needed, because the report learns the same. A report
# whose connection broke may still lock the row of the job, and the next heartbeat must not wait for this lock.
keep_lease() {  # interval
    while sleep "$1" && kill -0 $$ 2>/dev/null; do
        sql job="$JOB_ID" lease="$JOB_LEASE" >/dev/null 2>&1 <<<"WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))
SELECT jobq_heartbeat(:job, :lease) FROM briefly"
    done
}

alive() { kill -0 -- "-$1" 2>/dev/null; }

run() {  # interval of the lease
    local interval=$1 handler beats status=0 released=
    [ -z "$heartbeat_interval" ] || interval=$(awk -v a="$interval" -v b="$heartbeat_interval" 'BEGIN { print a < b ? a : b }')
    [ -z "$heartbeat_timeout" ] || interval=$(awk -v a="$interval" -v b="$heartbeat_timeout" 'BEGIN { print a < b / 3 ? a : b / 3 }')
    set -m
    (
        cd "$JOB_DIR" || exit 1
        trap 'exit 143' TERM
        "handle_$JOB_KIND" >output 2>errors
    ) &
    handler=$!
    heartbeats "$interval" "$handler" &
    beats=$!
    set +m
    # A signal to this script ends the wait, but not the handler.
    while kill -0 "$handler" 2>/dev/null; do
        if [ -n "$at_once" ] && [ -z "$released" ]; then
            released=1
            echo stopping >"$JOB_DIR/stopped"
            kill -TERM -- "-$handler" 2>/dev/null
            for _ in {1..10}; do alive "$handler" || break; sleep 0.1; done
            kill -KILL -- "-$handler" 2>/dev/null
        fi
        wait "$handler" 2>/dev/null
    done
    wait "$handler" 2>/dev/null || status=$?
    kill -KILL -- "-$handler" 2>/dev/null
    kill -TERM -- "-$beats" 2>/dev/null
    wait "$beats" 2>/dev/null
    local reporter give_up_at=
    set -m
    keep_lease "$interval" &
    beats=$!
    set +m
    report "$status" &
    reporter=$!
    while kill -0 "$reporter" 2>/dev/null; do
        if [ -n "$at_once" ] && [ -z "$give_up_at" ]; then
            give_up_at=$((SECONDS + 5))
            (sleep 6; kill -USR1 $$) 2>/dev/null &
        elif [ -n "$give_up_at" ] && [ "$SECONDS" -ge "$give_up_at" ]; then
            kill "$reporter"
            kill -TERM -- "-$beats"
            die "giving up: job $JOB_ID could not be reported"
        fi
        wait "$reporter"
    done
    kill -TERM -- "-$beats" 2>/dev/null
    wait "$beats" 2>/dev/null
}

report() {  # status of the handler
    local outcome stopped='' answer what refused='' retry=true delay='' conflicts=0
    [ ! -e "$JOB_DIR/stopped" ] || stopped=$(cat "$JOB_DIR/stopped")
    if [ "$stopped" = lost ]; then return; fi
    # Also sends the progress that the heartbeats were about to send.
    [ -e "$JOB_DIR/progress" ] || mv "$JOB_DIR/progress.sent" "$JOB_DIR/progress" 2>/dev/null
    if [ -e "$JOB_DIR/progress" ]; then
        surely job="$JOB_ID" lease="$JOB_LEASE" >/dev/null <<<"\\set progress \`cat '$JOB_DIR/progress'\`
SELECT jobq_heartbeat(:job, :lease, :'progress')"
    fi
    outcome=$(cat "$JOB_DIR/outcome" 2>/dev/null)
    if [ "$outcome" = "done" ]; then
        what=completed answer=t
    elif [[ $outcome == "snooze "* ]]; then
        what=snoozed
        answer=$(surely job="$JOB_ID" lease="$JOB_LEASE" delay="${outcome#snooze } s" <<<"SELECT jobq_snooze(:job, :'delay', :lease)") ||
            refused=1
    elif [ "$1" = 0 ]; then
        what=completed
        answer=$(surely job="$JOB_ID" lease="$JOB_LEASE" <<<"\\set result \`cat '$JOB_DIR/output'\`
SELECT jobq_complete(:job, :lease, nullif(:'result', '')::jsonb)") || refused=1
    elif [ "$stopped" = stopping ]; then
        what=released
        answer=$(surely job="$JOB_ID" lease="$JOB_LEASE" <<<"SELECT jobq_release(:job, :lease)") || refused=1
    elif [ "$outcome" = conflict ] && [ -z "$stopped" ] && conflicts=$(cat "$jobs/conflicts.$JOB_ID" 2>/dev/null || echo 0) &&
        [ "$conflicts" -lt "$most_conflicts" ]; then
        what="its transaction collided with another one, so it is given back: $((conflicts + 1)) of $most_conflicts times"
        echo $((conflicts + 1)) >"$jobs/conflicts.$JOB_ID"
        answer=$(surely job="$JOB_ID" lease="$JOB_LEASE" <<<"SELECT jobq_release(:job, :lease)") || refused=1
    else
        what=failed
        if [ "$stopped" = cancel ]; then
            echo cancelled >"$JOB_DIR/errors"
            what=cancelled
        fi
        [ "$outcome" != reject ] || retry=false
        [[ $outcome != "retry "* ]] || delay="${outcome#retry } s"
        answer=$(fail "$retry") || refused=1
    fi
    if [ -n "$refused" ]; then
        local rejected=failure
        case $what in completed) rejected=result ;; snoozed) rejected=snooze ;; released) rejected=release ;; esac
        { printf 'the %s was refused: ' "$rejected"; cat "$JOB_DIR/refused"; } >"$JOB_DIR/errors"
        what=refused
        answer=$(fail "$retry") || { [ -n "$delay" ] && delay='' && answer=$(fail "$retry"); } || answer=refused
    fi
    if [ -z "$answer" ] || [ "$answer" = f ]; then
        # An earlier attempt to report may have succeeded although its answer was lost.
        answer=$(surely job="$JOB_ID" lease="$JOB_LEASE" <<<"SELECT jobq_heartbeat(:job, :lease)")
        # "gone" also means success if the queue keeps no finished jobs.
        [ "$answer" = finished ] || { [ "$answer" = gone ] && [ -e "$JOB_DIR/again" ]; } || what="the lease is lost"
    fi
    log "job $JOB_ID of kind $JOB_KIND: $what"
    [[ $what == *"given back"* ]] || rm -f "$jobs/conflicts.$JOB_ID"
}

fail() {  # whether to retry
    tail -c 30000 "$JOB_DIR/errors" | iconv -f UTF-8 -t UTF-8 -c | tr -d '\000' >"$JOB_DIR/message"
    send_failure "$1" && return
    [[ $error =~ ERROR:\ \ (22P05|22021) ]] || return 1
    # The encoding of the database does not have a character of the text.
    LC_ALL=C sed -i 's/[\xC0-\xFF][\x80-\xBF]*/?/g' "$JOB_DIR/message"
    send_failure "$1"
}
send_failure() {
    surely job="$JOB_ID" lease="$JOB_LEASE" retry="$1" delay="$delay" <<<"\\set message \`cat '$JOB_DIR/message'\`
SELECT jobq_fail(:job, :lease, :'message', nullif(:'delay', '')::interval, :'retry')"
}

# ---- the worker

jobs='' stop='' at_once='' waiting='' timer='' failed='' waits_canceled='' look_at=0
on_term() {
    [ -z "$stop" ] || at_once=1
    [ -n "$stop" ] || log "stopping, no more claims"
    stop=1
    # Ends the wait, even if it has not begun yet. If jobq is not preloaded, kills the psql that waits.
    { sql <<<"SELECT jobq_wake(:'worker')" || { [ -z "$waiting" ] || kill "$waiting"; }; } >/dev/null 2>&1 &
    if [ -z "$timer" ]; then
        (sleep "$grace"; kill -USR1 $$) 2>/dev/null &
        timer=$!
    fi
}
trap on_term TERM INT
trap 'at_once=1' USR1
# Only the worker itself deletes the files: bash can also run this trap in a background process that is killed as soon as it starts.
trap '[ "$BASHPID" != $$ ] || rm -rf "$jobs"' EXIT

if ! error=$(sql VERBOSITY=verbose 2>&1 >/dev/null <<<"SELECT jobq_wake(:'worker')"); then
    [[ $error =~ ERROR:\ \ 55000 ]] || die "jobq does not answer: $(sed '/^LOCATION: /d' <<<"$error")"
fi
# If jobq is not preloaded, no function can end a wait, and behind a pooler, a wait holds a connection. So waits are short.
wait_timeout=$(awk -v w="$wait_timeout" 'BEGIN { print w < 2 ? w : 2 }')
jobs=$(mktemp -d) || die "could not create a directory for jobs"
log "serves queue \"$queue\", kinds $kinds; leaves jobs of other kinds to other workers"

# Logs which waiting jobs of the queue have no kind, or a kind without a handler in this worker. Reads at most a thousand jobs of
# each lane. A role that may not read the tables tries only once. If the connection is broken, the next claim reports it.
look_for_others() {
    local found status=0
    [ "$SECONDS" -ge "$look_at" ] || return 0
    look_at=$((SECONDS + 600))
    found=$(sql VERBOSITY=verbose 2>&1 <<<"
        SELECT string_agg(n || CASE kind WHEN '' THEN ' without a kind' ELSE ' of kind ' || quote_literal(kind) END, ', ' ORDER BY kind)
        FROM (SELECT d.kind, sum((SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane LIMIT 1000) few)) AS n
              FROM jobq.lane_directory d WHERE d.queue = :'queue' AND d.kind <> ALL (:'kinds'::text[]) GROUP BY d.kind) counted
        WHERE n > 0") || status=$?
    if [ $status != 0 ]; then
        [[ ! $found =~ ERROR:\ \ 42501 ]] || look_at=$((SECONDS + 2000000000))
    elif [ -n "$found" ]; then
        log "jobs that this worker does not claim are waiting in queue \"$queue\": $found"
    fi
}

await_job() {
    if [ -e "$jobs/polls_until" ]; then
        if [ "$EPOCHSECONDS" -lt "$(cat "$jobs/polls_until")" ]; then
            sleep "$poll"
            poll=$(awk -v p="$poll" 'BEGIN { print p < 0.5 ? 2 * p : 1 }')
            return
        fi
        rm "$jobs/polls_until"
        log "answers are fast again: waiting instead of polling"
    fi
    sql VERBOSITY=verbose wait_timeout="$wait_timeout s" >/dev/null 2>"$jobs/wait.error" \
        <<<"CALL jobq_wait(:'queue', :'wait_timeout', :'kinds', worker_id => :'worker')" &
    waiting=$!
    if ! wait "$waiting" && [ -z "$stop" ]; then
        if ! grep -q 'ERROR:  57014' "$jobs/wait.error"; then
            sed '/^LOCATION: /d' "$jobs/wait.error" >&2
            sleep 1
        elif [ -z "$waits_canceled" ]; then
            waits_canceled=1
            log "the server canceled a wait: $(sed '/^LOCATION: /d' "$jobs/wait.error"). The setting statement_timeout of this role or" \
                "database is $(sql <<<'SHOW statement_timeout'), and wait_timeout is $wait_timeout s."
        fi
    fi
    waiting=
}

# If the disk is full, the handler must not get a part of the payload.
keep_what_was_claimed() {
    mkdir "$JOB_DIR" && printf '%s' "$payload" >"$JOB_DIR/payload" || return 1
    [ -z "$before" ] || printf '%s' "$before" >"$JOB_DIR/progress_before"
}

pause=0.1 poll=0.05
limit_answers
while [ -z "$stop" ]; do
    look_for_others
    status=0
    row=$(try_sql <<<"SELECT id, lease, heartbeat_seconds, attempt, kind, coalesce(progress::text, ''), payload
        FROM jobq_claim(:'queue', :'worker', kinds => :'kinds', heartbeat_timeout => nullif(:'timeout', '')::interval)") || status=$?
    if [ $status = 2 ]; then rest_longer; continue; fi
    [ $status = 0 ] || die "the claim was refused"
    pause=0.1
    if [ -z "$row" ]; then await_job; continue; fi
    poll=0.05
    # The command "read" is not used, because its input is a temporary file, and the disk may be full.
    for name in JOB_ID JOB_LEASE interval JOB_ATTEMPT JOB_KIND before; do
        printf -v "$name" %s "${row%%$'\t'*}"
        row=${row#*$'\t'}
    done
    payload=$row
    JOB_DIR=$jobs/$JOB_ID.$JOB_LEASE
    export JOB_ID JOB_LEASE JOB_KIND JOB_ATTEMPT JOB_DIR
    if ! keep_what_was_claimed; then
        failed=1 stop=1
        log "job $JOB_ID of kind $JOB_KIND could not be started, and is given back: no room in $jobs"
    fi
    if [ -n "$stop" ]; then
        surely job="$JOB_ID" lease="$JOB_LEASE" <<<"SELECT jobq_release(:job, :lease)" >/dev/null
        break
    fi
    limit_answers "$interval"
    run "$interval"
    limit_answers
    rm -rf "$JOB_DIR"
done
[ -z "$timer" ] || kill "$timer" 2>/dev/null
log stopped
[ -z "$failed" ] || exit 1
