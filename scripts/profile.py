# What scripts/profile.sh runs: a queue for each kind of call, a session that calls, and the table of what that has cost.
#
#   profile.py [WORD ...]    kinds whose names contain one of the words; all without
#
# pg_postmaster_start_time() and pg_trigger_depth() mark the steady calls: callgrind begins to count at the first, and writes
# at the second.

import glob
import os
import re
import subprocess
import sys
from dataclasses import dataclass

from profile_file import Profile

WARM, CALLS = 300, 1000
OUT, SOURCES = os.environ['PROFILE_OUT'], os.environ['PROFILE_SOURCES']
LINE = 64
EMPTIES_THE_CACHE = "SELECT length(repeat(repeat('x', 4096), 1024 + (random() * 0)::int));\n"

CLAIM = "SELECT id, lease, payload FROM jobq_claim('bench') \\gset\n"
LIFECYCLE = CLAIM + 'SELECT jobq_complete(:id, :lease) AS done \\gset\n'
# The calls of bench/, and one whose literals are the same by either protocol.
FUSED = ("SELECT ARRAY[id] AS ids, ARRAY[lease] AS leases, payload "
         "FROM jobq_complete_and_claim(:ids::bigint[], :leases::bigint[], queue => 'bench') \\gset\n")
LITERAL = ("SELECT id, lease, payload "
           "FROM jobq_complete_and_claim(ARRAY[:id]::bigint[], ARRAY[:lease]::bigint[], queue => 'bench') \\gset\n")
# A successor comes when the worker has let it go.
PATIENT = ("SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(lease), '{}') AS leases "
           "FROM jobq_complete_and_claim(:ids::bigint[], :leases::bigint[], queue => 'bench') \\gset\n")


@dataclass
class Kind:
    name: str
    script: str
    function: str = ''      # of ours, which it calls; both, where there are two
    prepared: bool = True
    setup: str = ''         # of the queue
    each: str = ''          # an argument of jobq_enqueue_many, of n
    jobs: int = 2 * (WARM + CALLS)


KINDS = [
    Kind('SELECT 1', 'SELECT 1;\n', jobs=0),
    Kind('empty claim', "SELECT id, lease, payload FROM jobq_claim('bench');\n", 'jobq_claim', jobs=0),
    Kind('empty claim, not prepared', "SELECT id, lease, payload FROM jobq_claim('bench');\n", 'jobq_claim', prepared=False,
         jobs=0),
    Kind('complete_and_claim', FUSED, 'jobq_complete_and_claim'),
    Kind('complete_and_claim, not prepared', LITERAL, 'jobq_complete_and_claim', prepared=False),
    Kind('claim, complete', LIFECYCLE, 'jobq_claim jobq_complete'),
    Kind('claim, complete, a limit of the queue', LIFECYCLE, 'jobq_claim jobq_complete',
         setup="SELECT jobq_create_queue('bench'); SELECT jobq_set_limit('bench', max_running => 1000)"),
    Kind('claim, complete, ageing of 10 priorities', LIFECYCLE, 'jobq_claim jobq_complete',
         setup="SELECT jobq_create_queue('bench', priority_ageing => '1 min')", each='priorities => (n % 10)::int'),
    Kind('complete_and_claim, one row', PATIENT, 'jobq_complete_and_claim'),
    Kind('complete_and_claim, one row, 100 groups', PATIENT, 'jobq_complete_and_claim', each="group_keys => 'key ' || n % 100"),
]

# Who has run the instructions: by the file of the server's sources, the first that fits.
PARTS = [
    ('B-tree', r'access/(nbtree|index)/|/genam\.c'),
    ('heap, rows', r'access/(heap|table|common)/|execTuples\.c'),
    ('WAL', r'transam/xlog'),
    ('transactions, snapshots', r'access/transam/|utils/time/|procarray\.c|ipc/sinval'),
    ('buffers', r'storage/(buffer|page|smgr|freespace|file)/'),
    ('locks', r'storage/lmgr/|storage/ipc/'),
    ('catalogue caches', r'utils/cache/'),
    ('memory', r'utils/(mmgr|resowner)/'),
    ('parser, planner', r'backend/(parser|rewrite|optimizer|nodes)/|common/(keywords|kwlookup)'),
    ('executor', r'backend/executor/'),
    ('protocol, portal', r'backend/(tcop|libpq)/|access/common/print|stringinfo|ps_status'),
    ('statistics', r'utils/activity/'),
    ('values, function calls', r'utils/(adt|fmgr|hash|sort|misc|mb|init|error)/|common/|port/'),
]


def sql(command):
    done = subprocess.run(['psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-c', command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout.strip()


def fill(kind):
    sql("TRUNCATE jobq.jobs, jobq.attempts; DELETE FROM jobq.limit_settings; DELETE FROM jobq.queue_settings")
    for command in kind.setup.split(';'):
        if command.strip():
            sql(command)
    if kind.jobs == 0:
        return
    more = ''
    if kind.each:
        name, expression = kind.each.split(' => ')
        more = f', {name} => array_agg({expression})'
    sql("SELECT count(*) FROM (SELECT jobq_enqueue_many('bench', array_agg(jsonb_build_object('n', n, 'text', "
        f"repeat('x', 67))){more}) FROM generate_series(1, {kind.jobs}) n) made")
    sql('VACUUM ANALYZE jobq.jobs')


def run(kind, before=''):
    """The profile of the steady calls of a session."""
    fill(kind)
    known = set(glob.glob(f'{OUT}/*.1'))
    script = (f'\\set call :call + 1\n\\if :call = {WARM + 1}\nSELECT pg_postmaster_start_time();\n\\endif\n'
              f'{before}{kind.script}'
              f'\\if :call = {WARM + CALLS}\nSELECT pg_trigger_depth();\n\\endif\n')
    with open(f'{OUT}/script.sql', 'w') as file:
        file.write(script)
    done = subprocess.run(['pgbench', '-n', '-M', 'prepared' if kind.prepared else 'simple', '-f', f'{OUT}/script.sql', '-c', '1',
                           '-t', str(WARM + CALLS), '-D', 'call=0', '-D', 'ids={}', '-D', 'leases={}', '-D', 'id=0', '-D', 'lease=0'],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'{kind.name}: {done.stderr}')
    new = sorted(set(glob.glob(f'{OUT}/*.1')) - known)
    if len(new) != 1:
        sys.exit(f'{kind.name}: {len(new)} profiles instead of one')
    completed = int(sql("SELECT count(*) FROM jobq.jobs WHERE status = 'completed'"))
    if kind.jobs > 0 and completed < WARM + CALLS - 2:
        sys.exit(f'{kind.name}: {completed} jobs were completed')
    with open(f'{OUT}/kinds', 'a') as file:
        file.write(f'{os.path.basename(new[0])} {before != "" and "cold " or ""}{kind.name}\n')
    return Profile(new[0])


def part_of(key):
    binary, path, _ = key
    if binary.endswith('jobq.so'):
        room = re.search(r'src/(\w+)/', path)
        return 'jobq: ' + (room.group(1) if room else 'headers')
    if 'postgres' in binary:
        for name, pattern in PARTS:
            if re.search(pattern, path):
                return name
        return 'server, other'
    return 'C library'


def by_part(profile, event=0):
    parts = {}
    for key, costs in profile.own.items():
        if len(costs) > event:
            part = part_of(key)
            parts[part] = parts.get(part, 0) + costs[event] / CALLS
    return parts


# The way of a call, in the order in which it is gone; deeper ones are parts of the one above. A name of ours ends in a
# parenthesis in callgrind's files.
WAY = [
    (0, 'parse', ['pg_parse_query']),
    (0, 'analyse, rewrite', ['pg_analyze_and_rewrite_fixedparams', 'pg_analyze_and_rewrite_varparams', 'parse_analyze_fixedparams']),
    (0, 'plan', ['pg_plan_queries']),
    (0, 'plan from the cache', ['GetCachedPlan']),
    (0, 'portal: start', ['PortalStart']),
    (0, 'portal: run', ['PortalRun']),
]


def ours(profile):
    """The functions that the server calls of the library, with all that they call."""
    found = {}
    libraries = {}
    for binary, _, name in profile.own:
        libraries.setdefault(name, binary)
    for (caller, callee), (_, costs) in profile.called.items():
        if not libraries.get(callee, '').endswith('jobq.so') or libraries.get(caller, '').endswith('jobq.so'):
            continue
        found[callee] = found.get(callee, 0) + costs[0] / CALLS
    return found


def show(kind, profile):
    total = profile.total() / CALLS
    print(f'\n{kind.name}: {total:,.0f} instructions')
    for depth, title, names in WAY:
        cost = sum(profile.of_function(name) for name in names) / CALLS
        if cost >= 1:
            print(f'  {"  " * depth}{title:40} {cost:10,.0f} {100 * cost / total:5.1f} %')
    for name, cost in sorted(ours(profile).items(), key=lambda item: -item[1]):
        if cost >= total / 1000:
            print(f'  in the library: {name[:60]:60} {cost:10,.0f} {100 * cost / total:5.1f} %')
    print()
    for part, cost in sorted(by_part(profile).items(), key=lambda item: -item[1]):
        if cost >= total / 1000:
            print(f'  {part:40} {cost:10,.0f} {100 * cost / total:5.1f} %')


def main():
    words = sys.argv[1:]
    kinds = [kind for kind in KINDS if not words or any(word in kind.name for word in words)]
    if not kinds:
        sys.exit(f'no such kind; there are: {", ".join(kind.name for kind in KINDS)}')
    sql('CREATE EXTENSION IF NOT EXISTS jobq')
    for kind in kinds:
        show(kind, run(kind))
        sys.stdout.flush()


if __name__ == '__main__':
    main()
