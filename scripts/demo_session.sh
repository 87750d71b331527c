# Library of the demonstration's workers: the name they are called with, and a session.
#
#   ask SQL      runs it, and puts what it prints into $answer
#   pause WHERE  with PAUSE=1: writes to work/NAME.paused where the worker is, and waits until the worker is killed
#
# They run until SIGTERM, which sets $stop.
name=$1
stop=
trap 'stop=1' TERM

# One session for the whole life of the worker. It ends when this process ends, however it ends.
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

# The process itself waits, without a child that could outlive it.
pause() {
    [ "${PAUSE-}" = 1 ] || return 0
    echo "$1" >"work/$name.paused"
    IFS= read -r -t 600 _ <&"${db[0]}"
}
