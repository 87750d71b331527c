#!/bin/bash
# What a call costs, in instructions: a throw-away server under valgrind's callgrind, one session, 1,000 calls of each kind
# after 300 to get warm, from the message that asks to the answer. Instructions are the same on every machine and beside any
# other work. What the kernel does is not among them.
#   make profile                       every kind of call, and its WAL
#   make profile ONLY="empty claim"    those whose names fit this regular expression
#   make profile KEEP=/some/directory  leaves callgrind's files there, for callgrind_annotate
#   make profile CACHE=1               how many lines of memory a call brings into the caches of a core instead (simulated)
# Debian's server names those of its functions that extensions may call, which is enough to tell its parts apart.
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
scratch_give "$SCRATCH/out"
# In a directory of their own, because Python lists the directory that it imports from.
mkdir "$SCRATCH/programs"
cp scripts/profile*.py scripts/cache_lines.py bench/contenders.py "$SCRATCH/programs/"

# The two functions mark where the session's steady calls begin and end (scripts/profile.py).
under="valgrind --quiet --tool=callgrind --trace-children=yes --zero-before=pg_postmaster_start_time --dump-before=pg_trigger_depth"
program=profile.py
if [ "${CACHE-}" = 1 ]; then
    program=cache_lines.py
    under="$under --cache-sim=yes $(/usr/bin/python3 scripts/cache_lines.py --caches)"
fi
scratch_run_under "$under --callgrind-out-file=$SCRATCH/out/%p"
# A worker's round, a checkpoint or a vacuum would come at another call each time.
scratch_server server "shared_preload_libraries = 'jobq'" "autovacuum = off" "checkpoint_timeout = 1h" "max_wal_size = 8GB" \
    "synchronous_commit = off" "shared_buffers = 256MB"

export PROFILE_OUT=$SCRATCH/out PYTHONDONTWRITEBYTECODE=1
cd "$SCRATCH"
status=0
run_group /usr/bin/python3 "$SCRATCH/programs/$program" "${ONLY-}" || status=$?
cd "$JOBQ_ROOT"
if [ -n "${KEEP-}" ]; then
    mkdir -p "$KEEP"
    for file in "$SCRATCH"/out/*.1 "$SCRATCH/out/kinds"; do run_as cat "$file" >"$KEEP/${file##*/}"; done
fi
exit $status
