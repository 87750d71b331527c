#!/bin/bash
# Measures the cost of a call in instructions: a throwaway server under valgrind's callgrind, one session, 1,000 calls of each
# kind after 300 warm-up calls, from the request to the response. The number of instructions is the same on every machine and
# whatever else runs there. It does not include the kernel.
#   make profile                       every kind of call, and its WAL
#   make profile ONLY="empty claim"    calls whose names match this regular expression
#   make profile KEEP=/some/directory  keeps callgrind's files there, for callgrind_annotate
#   make profile CACHE=1               instead: how many cache lines a call loads into the caches of a core (simulated)
# Debian's server has symbols for the functions that extensions may call, which is enough to tell its parts apart.
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
# The programs are in a separate directory, because Python lists the directory that it imports from.
mkdir "$SCRATCH/programs"
cp scripts/profile*.py scripts/cache_lines.py bench/contenders.py "$SCRATCH/programs/"

# Calls to these two functions mark the beginning and the end of the measured calls (scripts/profile.py).
under="valgrind --quiet --tool=callgrind --trace-children=yes --zero-before=pg_postmaster_start_time --dump-before=pg_trigger_depth"
program=profile.py
if [ "${CACHE-}" = 1 ]; then
    program=cache_lines.py
    under="$under --cache-sim=yes $(/usr/bin/python3 scripts/cache_lines.py --caches)"
fi
scratch_run_under "$under --callgrind-out-file=$SCRATCH/out/%p"
# Without these settings, a round of the background worker, a checkpoint, or a vacuum would occur during a different call each time.
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
