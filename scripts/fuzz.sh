#!/bin/bash
# make fuzz: runs all attackers of test/fuzz at full length against a throwaway server. See test/fuzz/README.md.
#   JOBQ_FUZZ_CALLS=n (100000), JOBQ_FUZZ_SEED=s, JOBQ_FUZZ_SECONDS=n for sqlsmith (120), JOBQ_FUZZ_PARTS='a b'
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh

scripts/setup.sh fuzz
find_pg_config
echo "building jobq for $("$PG_CONFIG" --version)"
mkdir -p build
make -s -j"$(nproc)" all >build/build.log 2>&1 || { cat build/build.log; exit 1; }

scratch_begin fuzz
scratch_tree
source=$SCRATCH/source
mkdir "$source"
cp -R test docs "$source/"
scratch_give "$source"
mapfile -t settings <test/fuzz/server.conf
scratch_server fuzz "${settings[@]}"

cd "$source"
export JOBQ_FUZZ_CALLS=${JOBQ_FUZZ_CALLS:-100000} JOBQ_FUZZ_SECONDS=${JOBQ_FUZZ_SECONDS:-120} JOBQ_FUZZ_LOG=$SCRATCH/fuzz.log
export JOBQ_FUZZ_SEED=${JOBQ_FUZZ_SEED:-$RANDOM}
if run_group test/fuzz/run.sh; then
    echo "seed $JOBQ_FUZZ_SEED, $SECONDS s"
else
    export SCRATCH_KEEP=1
    echo "FAILED; again with: JOBQ_FUZZ_SEED=$JOBQ_FUZZ_SEED make fuzz"
    exit 1
fi
