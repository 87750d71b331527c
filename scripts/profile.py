# For scripts/profile.sh: creates a queue for each kind of call, executes the calls in a session, and prints a table of their costs.
#
#   profile.py PATTERN    measures the kinds of calls whose names match the regular expression
#
# pg_postmaster_start_time() and pg_trigger_depth() mark the measured calls: callgrind starts to count when the first is called and
# writes its output when the second is called.

import glob
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from profile_file import Profile

WARM, CALLS = 300, 1000
OUT = os.environ['PROFILE_OUT']

CLAIM = "SELECT id, lease, payload FROM jobq_claim('bench') \\gset\n"
CLAIM_ALL = "SELECT * FROM jobq_claim('bench') \\gset\n"
CLAIM_JSON = "SELECT jobq_claim_json('{bench}') \\gset\n"
LIFECYCLE = CLAIM + 'SELECT jobq_complete(:id, :lease) AS done \\gset\n'
# The calls of bench/, with literals that are the same in both protocols.
FUSED = ("SELECT ARRAY[id] AS ids, ARRAY[lease] AS leases, payload "
         "FROM jobq_complete_and_claim(:ids::bigint[], :leases::bigint[], queue => 'bench') \\gset\n")
LITERAL = ("SELECT id, lease, payload "
           "FROM jobq_complete_and_claim(ARRAY[:id]::bigint[], ARRAY[:lease]::bigint[], queue => 'bench') \\gset\n")
# The next job can be claimed only after the worker has unblocked it.
PATIENT = ("SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(lease), '{}') AS leases "
           "FROM jobq_complete_and_claim(:ids::bigint[], :leases::bigint[], queue => 'bench') \\gset\n")

BATCH = 10
# Payloads of 1,500 bytes that do not compress.
LARGE = dict(jobs=BATCH * (WARM + CALLS),
             payload="to_jsonb(left((SELECT string_agg(md5(n || ' ' || i), '') FROM generate_series(1, 47) i), 1500))")
BATCHES = (f"SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq_claim('bench', batch => {BATCH}) \\gset\n"
           'SELECT count(*) AS done FROM jobq_complete_many(:ids::bigint[], :leases::bigint[]) \\gset\n')


@dataclass
class Kind:
    name: str
    script: str
    prepared: bool = True
    setup: str = ''         # of the queue
    each: str = ''          # an argument of jobq_enqueue_many, of n
    jobs: int = 2 * (WARM + CALLS)
    payload: str = "jsonb_build_object('n', n, 'text', repeat('x', 67))"


KINDS = [
    Kind('SELECT 1', 'SELECT 1;\n', jobs=0),
    Kind('UPDATE of one row by its key', "UPDATE bare SET status = 'done' WHERE id = :call;\n", jobs=0,
         setup="DROP TABLE IF EXISTS bare; "
               "CREATE TABLE bare (id bigint PRIMARY KEY, status text, payload jsonb) WITH (fillfactor = 60); "
               "INSERT INTO bare SELECT n, 'todo', jsonb_build_object('n', n, 'text', repeat('x', 67)) "
               "FROM generate_series(1, 2000) n; VACUUM ANALYZE bare"),
    Kind('enqueue_many of 100', "SELECT count(*) FROM jobq_enqueue_many('bench', array_fill('{}'::jsonb, '{100}'));\n", jobs=0),
    Kind('empty claim', "SELECT id, lease, payload FROM jobq_claim('bench');\n", jobs=0),
    Kind('empty claim_json', CLAIM_JSON, jobs=0),
    Kind('empty claim, not prepared', "SELECT id, lease, payload FROM jobq_claim('bench');\n", prepared=False,
         jobs=0),
    Kind('enqueue', "SELECT jobq_enqueue('bench', '{\"n\": 1, \"text\": \"some\"}');\n", jobs=0),
    Kind('enqueue into a batch', "SELECT jobq_enqueue('bench', '{\"n\": 1, \"text\": \"some\"}', options => '{\"batch_id\": 1}');\n", jobs=0,
         setup="SELECT jobq_create_batch(); UPDATE jobq.batch_settings SET id = 1"),
    Kind('claim, all columns', CLAIM_ALL),
    Kind('claim_json', CLAIM_JSON),
    Kind(f'claim, {BATCH} jobs of 1,500 bytes', f"SELECT * FROM jobq_claim('bench', batch => {BATCH});\n", **LARGE),
    Kind(f'claim_json, {BATCH} jobs of 1,500 bytes', f"SELECT jobq_claim_json('{{bench}}', batch => {BATCH});\n", **LARGE),
    Kind('claim, complete', LIFECYCLE),
    Kind('claim, complete, keep_completed 0', LIFECYCLE, setup="SELECT jobq_create_queue('bench', keep_completed => '0')"),
    Kind(f'claim, complete, {BATCH} jobs', BATCHES, jobs=(BATCH + 1) * (WARM + CALLS)),
    Kind('complete_and_claim', FUSED),
    Kind('complete_and_claim, not prepared', LITERAL, prepared=False),
    Kind('claim, complete, a limit of the queue', LIFECYCLE,
         setup="SELECT jobq_create_queue('bench'); SELECT jobq_set_limit('bench', max_running => 1000)"),
    Kind('claim, complete, ageing of 10 priorities', LIFECYCLE,
         setup="SELECT jobq_create_queue('bench', priority_ageing => '1 min')", each='priorities => (n % 10)::int'),
    Kind('complete_and_claim, one row', PATIENT),
    Kind('complete_and_claim, one row, 100 groups', PATIENT, each="group_keys => 'key ' || n % 100"),
    # The last kind, because the database remains a shard. The statement is that of the clients (cluster.py, cluster.js).
    Kind('enqueue into a shard', "SELECT jobq_enqueue('bench', '{\"n\": 1, \"text\": \"some\"}'), "
         "jobq_shard.require_shard(1), jobq_shard.require_map(0);\n", jobs=0,
         setup="CREATE EXTENSION IF NOT EXISTS jobq_shard; SELECT jobq_shard.join(1)"),
]

# The parts of the table. A function of the server belongs to the first part whose pattern matches it; otherwise its cost is
# attributed to its callers, so that memory allocation, hashing, and catalog look-ups count where they are needed.
PARTS = [
    ('protocol: messages in, rows out', r'PostgresMain|pq_\w+|printtup\w*|SendRowDescriptionMessage|(Begin|End)Command|'
                                        r'ReadyForQuery|set_ps_display|pgstat_report_activity|check_log_duration'),
    ('parse, analyze, plan', r'pg_parse_query|pg_(analyze_and_rewrite|rewrite_query|plan_quer)\w*|parse_analyze\w*|'
                             r'parse_\w+_analyze|CreateCachedPlan|CompleteCachedPlan'),
    ('prepared statement, portal', r'FetchPreparedStatement|GetCachedPlan|ReleaseCachedPlan|CreatePortal|Portal(Define|Start|Run|'
                                   r'Drop|Cleanup)\w*|GetPortalByName|PreCommit_Portals|AtCommit_Portals'),
    ('executor', r'(standard_)?Executor(Start|Run|Finish|End)|Exec(InitNode|EndNode|Scan)|FreeExecutorState'),
    ('function in FROM: its columns, its rows', r'ExecInitFunctionScan|ExecMakeTableFunctionResult|InitMaterializedSRF|tuplestore_\w+'),
    ('privileges', r'(pg_proc|object)_aclcheck\w*'),
    ('snapshots', r'(Get(Transaction|Latest|Active)|Push\w*Active|PopActive|Register|Unregister)Snapshot\w*'),
    ('tables and indexes: opened, locked', r'(table|relation|index)_(open|close)|Lock(Acquire|Relation|Release)\w*|ProcReleaseLocks'),
    ('heap', r'heap_(update|insert|multi_insert|delete|fetch|lock_tuple|hot_search\w*)|heapam_\w+|index_fetch_heap|'
             r'heap_page_\w+|Read(Recent)?Buffer\w*|ReleaseAndReadBuffer|RelationGetNumberOfBlocks\w*'),
    ('rows: columns read and formed', r'slot_\w+|tts_\w+|ExecStore\w+|heap_(form|deform|copy)\w*|MakeSingleTupleTableSlot|'
                                      r'ExecDropSingleTupleTableSlot|table_slot_create'),
    ('indexes', r'index_(insert|beginscan\w*|rescan|getnext\w*|endscan)|bt\w+|_bt_\w+|BuildIndexInfo|FormIndexDatum'),
    ('WAL', r'XLog\w+|LogCurrentRunningXacts'),
    ('transaction: begin, end', r'(Start|Commit)TransactionCommand|CommandCounterIncrement|GetNewTransactionId|'
                                r'AssignTransactionId|ResourceOwner(Release|Delete)|pgstat_report_stat|AtEOXact_\w+'),
]
OURS, OURS_AT_END, OTHER = 'jobq', 'jobq, at the commit', 'other'
AT_END = ('at_transaction_event', 'at_subtransaction_event', 'after_release')


def sql(command):
    done = subprocess.run(['psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-c', command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout.strip()


def settle_limits():
    """After a change of a limit, claims count running jobs until the worker has settled the limit."""
    for _ in range(100):
        if sql('SELECT count(*) FROM jobq.limit_settings WHERE highest_slot > max_running') == '0':
            return
        sql('SELECT count(*) FROM jobq_tick()')
        time.sleep(0.3)
    sys.exit('a tick does not look through the jobs after a change of a limit')


def fill(kind):
    sql("TRUNCATE jobq.jobs, jobq.attempts; DELETE FROM jobq.limit_settings; DELETE FROM jobq.queue_settings")
    for command in kind.setup.split(';'):
        if command.strip():
            sql(command)
    settle_limits()
    if kind.jobs == 0:
        return
    more = ''
    if kind.each:
        name, expression = kind.each.split(' => ')
        more = f', {name} => array_agg({expression})'
    sql(f"SELECT count(*) FROM (SELECT jobq_enqueue_many('bench', array_agg({kind.payload}){more}) "
        f"FROM generate_series(1, {kind.jobs}) n) made")
    sql('VACUUM ANALYZE jobq.jobs')


def wal_position():
    return int(sql("SELECT pg_current_wal_insert_lsn() - '0/0'"))


def run(kind, warm=WARM, calls=CALLS):
    """Returns the file with the profile of the steady calls of a session, and the bytes of WAL per call."""
    fill(kind)
    known = set(glob.glob(f'{OUT}/*.1'))
    script = (f'\\set call :call + 1\n\\if :call = {warm + 1}\nSELECT pg_postmaster_start_time();\n\\endif\n'
              f'{kind.script}'
              f'\\if :call = {warm + calls}\nSELECT pg_trigger_depth();\n\\endif\n')
    with open(f'{OUT}/script.sql', 'w') as file:
        file.write(script)
    before = wal_position()
    done = subprocess.run(['pgbench', '-n', '-M', 'prepared' if kind.prepared else 'simple', '-f', f'{OUT}/script.sql', '-c', '1',
                           '-t', str(warm + calls), '-D', 'call=0', '-D', 'ids={}', '-D', 'leases={}', '-D', 'id=0', '-D', 'lease=0'],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'{kind.name}: {done.stderr}')
    wal = (wal_position() - before) / (warm + calls)
    new = sorted(set(glob.glob(f'{OUT}/*.1')) - known)
    if len(new) != 1:
        sys.exit(f'{kind.name}: {len(new)} profiles instead of one')
    completed = kind.jobs - int(sql("SELECT count(*) FROM jobq.jobs WHERE status <> 'completed'"))    # or deleted
    if kind.jobs > 0 and 'complete' in kind.script and completed < warm + calls - 2:
        sys.exit(f'{kind.name}: {completed} jobs were completed')
    with open(f'{OUT}/kinds', 'a') as file:
        file.write(f'{os.path.basename(new[0])} {kind.name}\n')
    return new[0], wal


def part_of(binary, name):
    if binary.endswith('jobq.so'):
        if any(end in name for end in AT_END):
            return OURS_AT_END
        # The functions that SQL calls. The hooks of the planner and the executor only pass statements on.
        return OURS if name.startswith('jobq_') else None
    # If a function calls itself, callgrind appends the recursion depth to its name.
    name = name.split("'")[0]
    return next((part for part, pattern in PARTS if re.fullmatch(pattern, name)), None)


def by_part(profile):
    return {part: cost / CALLS for part, cost in profile.by_caller(part_of, OTHER).items()}


def show(columns):
    """Prints a table in Markdown. Columns are titles, costs by part, and bytes of WAL."""
    order = [part for part, _ in PARTS] + [OURS, OURS_AT_END, OTHER]
    print('\n| | ' + ' | '.join(title for title, _, _ in columns) + ' |\n|---|' + '--:|' * len(columns))
    for part in order:
        if any(costs.get(part, 0) >= 0.5 for _, costs, _ in columns):
            print(f'| {part} | ' + ' | '.join(f'{costs.get(part, 0):,.0f}' for _, costs, _ in columns) + ' |')
    print('| all | ' + ' | '.join(f'{sum(costs.values()):,.0f}' for _, costs, _ in columns) + ' |')
    print('| bytes of WAL | ' + ' | '.join(f'{wal:,.0f}' for _, _, wal in columns) + ' |')
    sys.stdout.flush()


def main():
    kinds = [kind for kind in KINDS if re.search(sys.argv[1], kind.name)]
    if not kinds:
        sys.exit(f'no such kind; there are: {", ".join(kind.name for kind in KINDS)}')
    sql('CREATE EXTENSION IF NOT EXISTS jobq')
    columns = []
    for kind in kinds:
        print(kind.name, '...', file=sys.stderr, flush=True)
        path, wal = run(kind)
        columns.append((kind.name, by_part(Profile(path)), wal))
    show(columns)


if __name__ == '__main__':
    main()
