# Library for the workers of the demonstration: the worker's name, and a session.
#
#   ask SQL      runs the SQL, and puts its output into $answer
#   pause WHERE  with PAUSE=1: writes WHERE to work/NAME.paused and waits until the worker is killed
#
# Workers run until SIGTERM, which sets $stop.
name=$1
stop=
trap 'stop=1' TERM

# The worker uses one session for its whole life. The session ends with this process, however the process ends.
coproc db { exec psql -XqAt -F $'\t' -v VERBOSITY=terse 2>&1; }

ask() {
    local line
    answer=
    printf '%s\n\\echo end-of-answer\n' "$1" >&"${db[1]}"
    while IFS= read -r line <&"${db[0]}"; do
        [ "$line" != end-of-answer ] || { answer=${answer%$'\n'}; return 0; }
        answer+=$line$'\n'
    done
    echo "$name: the connection is lost" >&2
    exit 1
}

# The process itself waits, without a child process that could outlive it.
pause() {
    [ "${PAUSE-}" = 1 ] || return 0
    echo "$1" >"work/$name.paused"
    IFS= read -r -t 600 _ <&"${db[0]}"
}
