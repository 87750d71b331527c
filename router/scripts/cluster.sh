#!/bin/bash
# make cluster: runs three shards, two routers, and a standby under load, while they are killed, promoted, added, and drained.
# router/test/cluster/README.md lists the settings. DEFECT=name: plants this patch from test/planted, and passes if the laws find the
# defect.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/scratch.sh
. scripts/planted.sh
scripts/setup.sh check
find_pg_config
make -s -j"$(nproc)" all >/dev/null
scratch_begin cluster
scratch_tree
if [ -n "${DEFECT-}" ]; then
    plant_defect "$DEFECT"
    export JOBQ_CLUSTER_EXPECT=caught
fi
mkdir -p "$SCRATCH/source/router" "$SCRATCH/source/clients/python"
cp -R test examples "$SCRATCH/source/"
cp -R router/test "$SCRATCH/source/router/"
cp -R "${planted:-.}/clients/python/src" "$SCRATCH/source/clients/python/"
scratch_give "$SCRATCH/cluster" "$SCRATCH/source"
export PYTHONDONTWRITEBYTECODE=1
cd "$SCRATCH/source"
status=0
run_group "${PYTHON:-/usr/bin/python3}" router/test/cluster/cluster_laws_test.py || status=$?
run_group "${PYTHON:-/usr/bin/python3}" router/test/cluster/cluster.py "$SCRATCH/cluster" || status=$?
[ $status -eq 0 ] || SCRATCH_KEEP=1
exit $status
