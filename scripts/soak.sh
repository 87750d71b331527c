#!/bin/bash
# make soak: repeats a day of load against two servers, and fails if sizes, memory, WAL, or times have a trend. Writes the figures and
# pictures to build/soak. test/soak/README.md describes the settings. DEFECT=name: plants this patch from test/planted, which the run
# must find.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
. scripts/planted.sh
report=$PWD/build/soak
scripts/setup.sh soak
find_pg_config
make -s -j"$(nproc)" all >/dev/null
scratch_begin soak
scratch_tree
if [ -n "${DEFECT-}" ]; then
    plant_defect "$DEFECT"
    export PLANT=$DEFECT
fi
directory=$SCRATCH/soak
if [ -n "${DIRECTORY-}" ]; then
    mkdir -p "$DIRECTORY"
    directory=$(realpath "$DIRECTORY")
fi
mkdir "$SCRATCH/source" "$SCRATCH/report"
cp -R test bench "$SCRATCH/source/"
scratch_give "$directory" "$SCRATCH/source" "$SCRATCH/report"
export PYTHONDONTWRITEBYTECODE=1
cd "$SCRATCH/source"
python=${PYTHON:-/usr/bin/python3}
status=0
run_group "$python" test/soak/trend_test.py || exit 1
run_group "$python" test/soak/soak.py "$directory" "$SCRATCH/socket" "$SCRATCH/report" || status=$?
mkdir -p "$report"
scratch_fetch "$SCRATCH/report" "$report"
[ $status -eq 0 ] || SCRATCH_KEEP=1
exit $status
