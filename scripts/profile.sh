#!/bin/bash
# What a call costs, in instructions: a throw-away server under valgrind's callgrind, one session, 1,000 calls of each kind
# after 300 to get warm, from the message that asks to the answer. Instructions are the same on every machine and beside any
# other work. What the kernel does is not among them.
#   make profile                       every kind of call
#   make profile ONLY="empty claim"    some of them: kinds that contain one of these words
#   make profile CACHE=1               instead the memory that a call touches, in lines of 64 bytes
#   make profile KEEP=/some/directory  leaves callgrind's files there, for callgrind_annotate
# The names of the server's own functions, and by what part of it they are, take its symbols (postgresql-15-dbgsym).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh

scripts/setup.sh profile
find_pg_config
mkdir -p build
make -s -j"$(nproc)" all >build/build.log 2>&1 || { cat build/build.log; exit 1; }
scratch_begin profile
scratch_tree
scratch_template
mkdir "$SCRATCH/out"
cp scripts/profile*.py "$SCRATCH/"
if [ "$(id -u)" = 0 ]; then chown "$SCRATCH_USER" "$SCRATCH/out"; fi

# The two functions mark where the session's steady calls begin and end (scripts/profile.py).
under="valgrind --quiet --tool=callgrind --trace-children=yes --zero-before=pg_postmaster_start_time --dump-before=pg_trigger_depth"
# A cache as large as a core has to itself, whatever the machine has.
[ "${CACHE-}" != 1 ] || under+=' --cache-sim=yes --I1=32768,8,64 --D1=32768,8,64 --LL=1048576,16,64'
scratch_run_under "$under --callgrind-out-file=$SCRATCH/out/%p"
# A worker's round, a checkpoint or a vacuum would come at another call each time.
scratch_server server "shared_preload_libraries = 'jobq'" "autovacuum = off" "checkpoint_timeout = 1h" "max_wal_size = 8GB" \
    "synchronous_commit = off" "shared_buffers = 256MB"

export PROFILE_OUT=$SCRATCH/out PROFILE_SOURCES=$JOBQ_ROOT/src PYTHONDONTWRITEBYTECODE=1
cd "$SCRATCH"
status=0
run_group /usr/bin/python3 "$SCRATCH/profile.py" ${ONLY-} || status=$?
cd "$JOBQ_ROOT"
if [ -n "${KEEP-}" ]; then mkdir -p "$KEEP" && cp "$SCRATCH"/out/*.1 "$SCRATCH"/out/kinds "$KEEP/"; fi
exit $status
