#!/bin/sh
# Runs the audit: the seeds of the design, the tests of the checker and the laws, planted defects, stranded jobs, the main run, all
# features together, and workflows.
# Needs a server that preloads jobq (PGHOST, PGPORT, PGUSER, PGDATABASE). See README.md in this directory.
#   JOBQ_AUDIT_PARTS='a b'     only these scripts
#   JOBQ_AUDIT_JOBS=n          jobs of the main run (default 100000)
#   JOBQ_AUDIT_SEED=n          seed of its random choices
#   JOBQ_AUDIT_EXPECT=caught   only the main run, which passes if the checker finds stale leases accepted
#   JOBQ_AUDIT_EXPECT=stranded only stranded.py, which passes if it finds stranded jobs
#   JOBQ_AUDIT_EXPECT=law      only everything.py, which passes if it finds this law broken ('limit exceeded', ...)
#   JOBQ_AUDIT_SECONDS=n       duration of a round of everything.py (default 60), and of the faults of workflows.py (default 30)
set -u
here=$(dirname "$0")
python=${PYTHON:-/usr/bin/python3}
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
case ${JOBQ_AUDIT_EXPECT:-} in
    '') scripts="checker_test.py laws_test.py workflow_laws_test.py seeds.py planted.py stranded.py audit.py everything.py workflows.py" ;;
    caught) scripts=audit.py ;;
    stranded) scripts=stranded.py ;;
    *) scripts=everything.py ;;
esac

export PYTHONDONTWRITEBYTECODE=1
for script in ${JOBQ_AUDIT_PARTS:-$scripts}; do
    {
        "$python" "$here/$script" && echo "ok - $script ended well" || echo "not ok - $script did not end well"
    } 2>&1 | grep -v '^[0-9]* passed, [0-9]* failed$' | tee -a "$output"
done
passed=$(grep -c '^ok ' "$output")
failed=$(grep -c '^not ok ' "$output")
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
