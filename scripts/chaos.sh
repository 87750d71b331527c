#!/bin/bash
# make chaos: runs producers and workers with two drivers while processes, servers, clients, and the disk fail. make ddl: does the
# same while a DBA rebuilds, alters, and moves the tables. make failover: does the same while standbys are promoted.
# test/chaos/README.md lists the settings. DEFECT=name: plants this patch from test/planted and passes if the run catches the
# defect.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
. scripts/planted.sh
attacker=${1:-chaos}   # or ddl, failover
if [ "$attacker" = ddl ]; then scripts/setup.sh ddl; else scripts/setup.sh check; fi
find_pg_config
make -s -j"$(nproc)" all >/dev/null
scratch_begin chaos
scratch_tree
if [ -n "${DEFECT-}" ]; then
    plant_defect "$DEFECT"
    export JOBQ_CHAOS_EXPECT=caught
fi

# A separate file system can be filled without harm to others. Only root can mount it.
disk=
unmount_disk() {
    local pid_file
    for pid_file in "$SCRATCH"/disk/*/postmaster.pid; do
        [ -e "$pid_file" ] && run_as "$SCRATCH_BIN/pg_ctl" -D "${pid_file%/*}" -m immediate -w -s stop
    done
    umount -l "$SCRATCH/disk"
}
if [ "$attacker" = failover ]; then
    :   # three servers, and no full disk
elif [ "$(id -u)" = 0 ] && mkdir "$SCRATCH/disk" && mount -t tmpfs -o "size=${JOBQ_CHAOS_DISK_SIZE:-1g}" jobq-chaos "$SCRATCH/disk" 2>/dev/null; then
    disk=$SCRATCH/disk
    scratch_give "$disk"
    scratch_hook=unmount_disk
else
    echo "# chaos: cannot mount a separate file system, so the fault of a full disk is skipped"
fi
mkdir "$SCRATCH/source"
cp -R test "$SCRATCH/source/"
if [ -d build/node/node_modules ]; then cp -R build/node/node_modules "$SCRATCH/source/"; fi
scratch_give "$SCRATCH/chaos" "$SCRATCH/source"
export PYTHONDONTWRITEBYTECODE=1 NODE_PATH=$SCRATCH/source/node_modules:/usr/share/nodejs JOBQ_CHAOS_DISK=$disk
cd "$SCRATCH/source"
status=0
run_group "${PYTHON:-/usr/bin/python3}" "test/chaos/$attacker.py" "$SCRATCH/chaos" || status=$?
[ $status -eq 0 ] || SCRATCH_KEEP=1
exit $status
