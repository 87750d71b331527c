"""The invariants of the rows when nothing changes anymore, whoever has changed them; see docs/internals.

Each law is a query that returns the rows that violate it. The background worker may need a moment to settle.
"""

from support import wait_until

MOMENT = 60     # seconds; a busy machine may stall for some of them
ROWS = ("SELECT j.id, j.queue, j.status, to_jsonb(j) - ARRAY['payload', 'metadata', 'result', 'progress', 'error'] FROM jobq.jobs j WHERE ")
FINISHED = "j.status > 'processing'"
AWAITS = "j.status = 'blocked' AND j._must_end_at IS NOT NULL"
DEPENDS = ("EXISTS (SELECT FROM jobq.dependencies d JOIN jobq.jobs o ON o.id = d.depends_on WHERE d.job_id = j.id"
           " AND o.status <= 'processing')")
# A retried dependency does not block a dependent again that no longer waits for it: the edge is no longer active.
ACTIVE = "(SELECT count(*) FROM jobq.dependencies d WHERE d.job_id = j.id AND d.active)"

LAWS = {
    "_ready while the job is pending":
        ROWS + "j._ready IS DISTINCT FROM CASE j.status WHEN 'pending' THEN true END",
    "_due while the job is scheduled, or awaits something with a timeout":
        ROWS + f"j._due IS DISTINCT FROM CASE WHEN j.status = 'scheduled' OR {AWAITS} AND j._must_end_at < 'infinity' THEN true END",
    "a job that is due is not scheduled for long":
        ROWS + "j.status = 'scheduled' AND j.run_at < clock_timestamp() - interval '1 s'",
    "the lane is that of queue, kind, version, requires and limits":
        ROWS + "j._lane IS DISTINCT FROM jobq.lane_of(j.queue, j.kind, j.version, j.requires, j.limits)",
    "a claimable job's lane is in the directory":
        ROWS + "j.status = 'pending' AND NOT EXISTS (SELECT FROM jobq.lane_directory l WHERE l.lane = j._lane AND l.queue = j.queue)",
    "a running job has a lease with its times, and is in the rescue's index":
        ROWS + "j.status = 'processing' AND (j.lease IS NULL OR j.lease NOT BETWEEN 1 AND 9007199254740991 OR j.started_at IS NULL"
        " OR j.last_heartbeat IS NULL OR j.last_heartbeat > clock_timestamp() OR j.attempts < 1"
        " OR j._rescue_indexed IS NOT TRUE)",
    "no lease outlives its deadline":
        ROWS + "j.status = 'processing' AND least(j.last_heartbeat + coalesce(j._lease_timeout, '60 s'), j._must_end_at)"
        " < clock_timestamp() - interval '2 s'",
    "a job that is not running has neither a lease nor a slot nor a deadline":
        ROWS + "j.status <> 'processing' AND num_nonnulls(j.lease, j._rescue_indexed, j._queue_slot, j._key_slot, j._kind_slot, j._limit_slot1, j._limit_slot2) > 0"
        f" OR j.status <> 'processing' AND j._must_end_at IS NOT NULL AND NOT ({AWAITS})",
    "a job that awaits something has one step that says what it awaits":
        ROWS + f"{AWAITS} AND (SELECT count(*) FROM jobq.steps s WHERE s.job_id = j.id AND s.state = 'waiting' AND s._awaited IS NOT NULL) <> 1",
    "a job with steps is marked as such":
        ROWS + "j._steps IS DISTINCT FROM (SELECT max(s.number) FROM jobq.steps s WHERE s.job_id = j.id)",
    "the job of each step exists":
        "SELECT s.job_id, s.name FROM jobq.steps s WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = s.job_id)",
    "finished_at is set exactly if the job has finished":
        ROWS + f"(j.finished_at IS NOT NULL) IS DISTINCT FROM ({FINISHED})",
    "only a waiting job can expire":
        ROWS + "j.expires_at IS NOT NULL AND j.status >= 'processing'",
    "only a completed job has a result":
        ROWS + "j.result IS NOT NULL AND j.status <> 'completed'",
    "counts and limits of attempts are in range":
        ROWS + "j.attempts < 0 OR j.lost_attempts < 0 OR j.max_attempts < 1"
        " OR j.status < 'processing' AND j.attempts >= j.max_attempts",
    "names, keys and times are in range":
        ROWS + "octet_length(j.queue) NOT BETWEEN 1 AND 63 OR octet_length(j.kind) > 255 OR octet_length(j.worker_id) > 255"
        " OR octet_length(j.unique_key) NOT BETWEEN 1 AND 1024 OR octet_length(j.group_key) NOT BETWEEN 1 AND 1024"
        " OR octet_length(j.concurrency_key) NOT BETWEEN 1 AND 255 OR j.concurrency_key = '*' OR NOT isfinite(j.run_at)"
        " OR octet_length(j.error) > 32768",
    "an unfinished job holds its unique key, and a finished job holds none":
        ROWS + f"CASE WHEN {FINISHED} THEN j._holds_key IS NOT NULL ELSE j._holds_key IS DISTINCT FROM CASE WHEN j.unique_key IS NOT NULL THEN true END END",
    "a job of a group waits, or is its head, until it has finished":
        ROWS + "CASE WHEN j.status = 'failed' AND j._group_active = jobq.group_of(j.queue, j.group_key) THEN j._group_waiting IS NOT NULL"
        f" WHEN j.group_key IS NULL OR {FINISHED} THEN num_nonnulls(j._group_waiting, j._group_active) > 0"
        f" WHEN j.status = 'blocked' AND {ACTIVE} = 1 THEN num_nonnulls(j._group_waiting, j._group_active) > 0"
        " ELSE coalesce(j._group_waiting, j._group_active) IS DISTINCT FROM jobq.group_of(j.queue, j.group_key)"
        " OR num_nonnulls(j._group_waiting, j._group_active) <> 1 OR j.status <> 'blocked' AND j._group_waiting IS NOT NULL END",
    "only one job of a group is active":
        "SELECT j._group_active, count(*), array_agg(j.id) FROM jobq.jobs j WHERE j._group_active IS NOT NULL"
        " GROUP BY j._group_active HAVING count(*) > 1",
    "a blocked job has something to wait for":
        ROWS + f"j.status = 'blocked' AND NOT ({AWAITS}) AND NOT {DEPENDS}"
        " AND NOT EXISTS (SELECT FROM jobq.jobs o WHERE o._group_active = j._group_waiting)",
    "a blocked job with dependencies has one active edge, or none if it is in the line of its group":
        ROWS + f"j.status = 'blocked' AND NOT ({AWAITS}) AND EXISTS (SELECT FROM jobq.dependencies d WHERE d.job_id = j.id)"
        f" AND {ACTIVE} <> CASE WHEN j._group_waiting IS NULL THEN 1 ELSE 0 END",
    "the jobs of each dependency exist":
        "SELECT d.job_id, d.depends_on FROM jobq.dependencies d WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = d.job_id)",
    "in a queue with round_robin each unfinished job has its round-robin key":
        ROWS + f"NOT {FINISHED} AND EXISTS (SELECT FROM jobq.queue_settings s WHERE s.queue = j.queue AND s.round_robin)"
        " AND j._round_robin_key IS DISTINCT FROM jobq.round_robin_key_of(j.concurrency_key)",
    "a dead letter has failed and is not in its original queue":
        ROWS + "j.dead_from IS NOT NULL AND (j.status <> 'failed' OR j.dead_from = j.queue)",
    "a slot of a queue is held by one job":
        "SELECT j._queue_slot, count(*), array_agg(j.id) FROM jobq.jobs j WHERE j._queue_slot IS NOT NULL"
        " GROUP BY j._queue_slot HAVING count(*) > 1",
    "a slot of a key is held by one job":
        "SELECT j._key_slot, count(*), array_agg(j.id) FROM jobq.jobs j WHERE j._key_slot IS NOT NULL"
        " GROUP BY j._key_slot HAVING count(*) > 1",
    "a slot of a kind is held by one job":
        "SELECT j._kind_slot, count(*), array_agg(j.id) FROM jobq.jobs j WHERE j._kind_slot IS NOT NULL"
        " GROUP BY j._kind_slot HAVING count(*) > 1",
    "a slot of a named limit is held by one job":
        "SELECT s.slot, count(*), array_agg(s.id)"
        " FROM (SELECT j._limit_slot1 AS slot, j.id FROM jobq.jobs j UNION ALL SELECT j._limit_slot2, j.id FROM jobq.jobs j) s"
        " WHERE s.slot IS NOT NULL GROUP BY s.slot HAVING count(*) > 1",
    "no lease is held by two jobs":
        "SELECT j.lease, count(*) FROM jobq.jobs j WHERE j.lease IS NOT NULL GROUP BY j.lease HAVING count(*) > 1",
    "the job of each attempt exists":
        "SELECT a.job_id, a.lease, a.outcome FROM jobq.attempts a WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = a.job_id)",
    "each attempt ended once":
        "SELECT a.job_id, a.lease, count(*) FROM jobq.attempts a GROUP BY a.job_id, a.lease HAVING count(*) > 1",
}

# Queries that show why a law is violated.
WITNESSES = {
    "prepared transactions": "SELECT gid, prepared FROM pg_prepared_xacts WHERE database = current_database()",
    "open transactions": "SELECT pid, state, xact_start, left(query, 200) FROM pg_stat_activity"
                         " WHERE datname = current_database() AND backend_xid IS NOT NULL",
    "background worker": "SELECT state, last_round, next_round, last_error, last_error_at, clock_timestamp() FROM jobq.background_workers"
                         " WHERE database = current_database()",
    "dependencies of blocked jobs": "SELECT d.job_id, d.depends_on, d.active, o.status, o.finished_at, o.updated_xmin FROM jobq.dependencies d"
                                    " JOIN jobq.jobs j ON j.id = d.job_id AND j.status = 'blocked'"
                                    " LEFT JOIN (SELECT o.*, o.xmin AS updated_xmin FROM jobq.jobs o) o ON o.id = d.depends_on LIMIT 200",
}

# Every index and every table of the schema, including TOAST.
INDEXES = """
SELECT c.oid::regclass::text, bt_index_parent_check(c.oid, heapallindexed => true, rootdescend => true)::text
FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_class t ON t.oid = i.indrelid
WHERE c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree') AND i.indisvalid AND i.indisready
  AND (t.relnamespace = 'jobq'::regnamespace
       OR t.oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace = 'jobq'::regnamespace))
"""
TABLES = """
SELECT c.oid::regclass::text, v.msg FROM pg_class c,
       LATERAL verify_heapam(c.oid, check_toast => true) v
WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind = 'r'
"""


def broken(conn):
    """By law: the number of rows that violate it, and the first of them."""
    found = {}
    for name, query in LAWS.items():
        rows = conn.execute(query + " LIMIT 1000").fetchall()
        if rows:
            found[name] = f"{len(rows)} rows, the first: {rows[0]}"
    return found


def check(results, conn):
    """Checks every law after the background worker has done the remaining work."""
    wait_until(lambda: not broken(conn), MOMENT, pause=0.3)
    found = broken(conn)
    for kind, query in WITNESSES.items() if found else ():
        results.note(f"{kind}: {conn.execute(query).fetchall()}")
    for name in LAWS:
        results.check(name not in found, name, found.get(name))


def check_storage(results, conn):
    conn.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    indexes = conn.execute(INDEXES).fetchall()
    results.check(len(indexes) > 15, f"amcheck finds all {len(indexes)} indexes sound, with every row of their tables")
    corrupt = conn.execute(TABLES).fetchall()
    results.check(not corrupt, "amcheck finds the tables sound", corrupt[:3])
