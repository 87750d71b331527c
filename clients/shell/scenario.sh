# The handlers for the scenarios, for worker.sh: see clients/scenarios/README.md. psql parses payloads, because jq may be missing.

tell() { surely event="$1" job="$JOB_ID" attempt="$JOB_ATTEMPT" <<<"INSERT INTO scenario.events VALUES (:job, :attempt, :'event')"; }
of_payload() { sql <<<"\\set payload \`cat payload\`
SELECT (:'payload'::jsonb) $1"; }
is_open() { [ -z "$1" ] || [ "$(surely gate="$1" <<<"SELECT count(*) FROM scenario.gates WHERE name = :'gate'")" = 1 ]; }
stopped() { trap '' TERM; tell "$(cat stopped)"; exit 1; }

handle_echo() { cat payload; }
handle_fail() {
    if [ "$JOB_ATTEMPT" -le "$(of_payload "->> 'times'")" ]; then of_payload "->> 'message'" >&2; return 1; fi
    echo "{\"attempt\": $JOB_ATTEMPT}"
}
handle_reject() {
    local seconds
    seconds=$(of_payload "->> 'retry_in'")
    if [ -n "$seconds" ]; then retry_in "$seconds" "$(of_payload "->> 'message'")"; else reject "$(of_payload "->> 'message'")"; fi
}
handle_snooze() {
    [ ! -e progress_before ] || { echo '{"snoozed": true}'; return; }
    progress '{"snoozed": true}'
    snooze "$(of_payload "->> 'delay'")"
}
handle_wait() {
    trap stopped TERM
    tell started
    local gate
    gate=$(of_payload "->> 'gate'")
    until is_open "$gate"; do sleep 0.1; done
    of_payload ""
}
handle_deaf() {
    trap '' TERM
    tell started
    local gate
    gate=$(of_payload "->> 'gate'")
    until is_open "$gate"; do sleep 0.1; done
    of_payload ""
}
handle_sleep() {
    local seconds
    seconds=$(of_payload "->> 'seconds'")
    tell started
    sleep "$seconds"
    echo '{}'
}
handle_progress() {
    tell started
    local n steps gate
    steps=$(of_payload "->> 'steps'") gate=$(of_payload "->> 'gate'")
    for ((n = 1; n <= steps; n++)); do progress "{\"step\": $n}"; done
    until is_open "$gate"; do sleep 0.1; done
    echo "{\"steps\": $steps}"
}
handle_transfer() {
    handle_deaf >/dev/null
    local error
    error=$(of_payload "->> 'error'")
    echo '{"moved": true}' >result
    completing "INSERT INTO scenario.effects VALUES (:job, :attempt, 'transfer')$(
        [ -z "$error" ] || [ "$JOB_ATTEMPT" != 1 ] || echo "; SELECT (:'error')::int")" error="$error"
}
handle_steps() {
    tell started
    local name before gate results=''
    before=$(of_payload "->> 'before'") gate=$(of_payload "->> 'gate'")
    for name in $(of_payload "->> 'names'" | tr -d '[],"'); do
        [ "$name" != "$before" ] || until is_open "$gate"; do sleep 0.1; done
        results+="${results:+, }$(step "$name" "INSERT INTO scenario.effects VALUES (:job, :attempt, :'name')" "{\"name\": \"$name\"}")"
    done
    echo "[$results]"
}
handle_garbage() {
    case $(of_payload "->> 'in'") in
        error) printf 'bad \377\0 bytes' >&2; return 1 ;;
        result) echo '"\u0000"' ;;
        *) progress '"\u0000"'; handle_wait ;;
    esac
}
handle_poison() { tell started; kill -KILL $$; }
