"""The changes that a DBA makes to jobq's tables while they are in use, and the moves from one server to another."""

import os
import random
import shutil
import subprocess
import time

import psycopg

from servers import Server, wait_for

# Statements that are executed one after the other, each in its own transaction.
STATEMENTS = {
    "reindex the table concurrently": ["REINDEX TABLE CONCURRENTLY jobq.jobs"],
    "reindex the claim index concurrently": ["REINDEX INDEX CONCURRENTLY jobq.jobs_ready_idx"],
    "reindex": ["REINDEX TABLE jobq.jobs"],
    "vacuum full": ["VACUUM FULL jobq.jobs", "VACUUM FULL jobq.attempts", "VACUUM FULL jobq.lane_directory"],
    "vacuum freeze": ["VACUUM (FREEZE, ANALYZE) jobq.jobs"],
    "cluster": ["CLUSTER jobq.jobs USING jobs_pkey"],
    "an index is created and dropped": ["CREATE INDEX extra ON jobq.jobs ((payload->>'k'))", "DROP INDEX jobq.extra"],
    "an index is created and dropped concurrently": ["CREATE INDEX CONCURRENTLY extra ON jobq.jobs (queue, created_at)",
                                                     "DROP INDEX CONCURRENTLY jobq.extra"],
    "a partial index on the status": ["CREATE INDEX extra ON jobq.jobs (kind) WHERE status = 'pending'", "DROP INDEX jobq.extra"],
    "a column is added and dropped": ["ALTER TABLE jobq.jobs ADD COLUMN extra text", "ALTER TABLE jobq.jobs DROP COLUMN extra"],
    "a column with a default is added and dropped": ["ALTER TABLE jobq.jobs ADD COLUMN extra integer NOT NULL DEFAULT 7",
                                                     "ALTER TABLE jobq.jobs DROP COLUMN extra"],
    "user triggers are disabled and enabled": ["ALTER TABLE jobq.jobs DISABLE TRIGGER USER", "ALTER TABLE jobq.jobs ENABLE TRIGGER USER"],
    "all triggers are disabled and enabled": ["ALTER TABLE jobq.jobs DISABLE TRIGGER ALL", "ALTER TABLE jobq.jobs ENABLE TRIGGER ALL"],
    "a row trigger is created and dropped": ["CREATE TRIGGER extra BEFORE INSERT OR UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION passes()",
                                             "DROP TRIGGER extra ON jobq.jobs"],
    "a statement trigger is created and dropped": ["CREATE TRIGGER extra AFTER UPDATE ON jobq.jobs REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION passes()",
                                                   "DROP TRIGGER extra ON jobq.jobs"],
    "a row trigger with a transition table is created and dropped": ["CREATE TRIGGER extra AFTER INSERT ON jobq.jobs REFERENCING NEW TABLE AS n FOR EACH ROW EXECUTE FUNCTION passes()",
                                                                     "DROP TRIGGER extra ON jobq.jobs"],
    "a check is added and dropped": ["ALTER TABLE jobq.jobs ADD CONSTRAINT extra CHECK (queue <> 'forbidden') NOT VALID",
                                     "ALTER TABLE jobq.jobs VALIDATE CONSTRAINT extra", "ALTER TABLE jobq.jobs DROP CONSTRAINT extra"],
    "a deferred reference is added and dropped": ["CREATE TABLE refers (job bigint REFERENCES jobq.jobs ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)",
                                                  "INSERT INTO refers SELECT id FROM jobq.jobs ORDER BY id DESC LIMIT 100", "DROP TABLE refers"],
    "the fillfactor changes": ["ALTER TABLE jobq.jobs SET (fillfactor = 50)", "ALTER TABLE jobq.jobs RESET (fillfactor)",
                               "ALTER TABLE jobq.jobs SET (fillfactor = 27)"],
    "the replica identity changes": ["ALTER TABLE jobq.jobs REPLICA IDENTITY FULL", "ALTER TABLE jobq.jobs REPLICA IDENTITY DEFAULT"],
    "a TRUNCATE is rolled back": ["BEGIN; TRUNCATE jobq.jobs; ROLLBACK"],
    "a rewrite is rolled back": ["BEGIN; ALTER TABLE jobq.jobs ADD COLUMN extra double precision DEFAULT random(); ROLLBACK"],
}
# Changes that are functions of the class below.
OTHERS = ("an index build is cancelled", "the claim index is lost", "pg_repack", "jobs in replica role", "jobs while triggers are off", "dump and restore", "switchover")
# How long clients wait for such a change does not matter here. DDL gives up after this time and tries again.
LOCK_TIMEOUT = "2s"


class Changes:
    def __init__(self, run):
        self.run = run
        self.random = random.Random(run.seed)
        self.port = run.primary.port
        self.findings = []
        with run.primary.connect(run.database) as conn:
            conn.execute("CREATE FUNCTION passes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$")
            conn.execute("CREATE EXTENSION amcheck")

    def names(self):
        return [*STATEMENTS, *(name for name in OTHERS if name != "pg_repack" or shutil.which("pg_repack"))]

    def choose(self, done):
        new = [name for name in self.names() if name not in done]
        # Moves take long, so each is made once.
        again = [name for name in self.names() if name not in ("switchover", "dump and restore")]
        return self.random.choice(new or again)

    def do(self, name):
        if name in STATEMENTS:
            with self.run.primary.connect(self.run.database) as conn:
                for statement in STATEMENTS[name]:
                    self._insist(conn, statement)
                    time.sleep(self.random.uniform(0, 0.5))
                    if statement.startswith(("CREATE INDEX", "REINDEX")):
                        self._check_indexes(conn)
            return
        {
            "an index build is cancelled": self._cancel_build,
            "the claim index is lost": self._lose_claim_index,
            "pg_repack": self._repack,
            "jobs in replica role": self._insert_in_replica_role,
            "jobs while triggers are off": self._insert_without_triggers,
            "dump and restore": self._dump_and_restore,
            "switchover": self._switch_over,
        }[name]()

    def _insist(self, conn, statement):
        """Executes a statement of the DBA with a short lock_timeout, so that other sessions need not wait behind it, and retries it."""
        conn.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
        concurrent = "CONCURRENTLY" in statement
        for attempt in range(200):
            try:
                if concurrent:
                    conn.execute("SET lock_timeout = 0")
                conn.execute(statement)
                return
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                conn.execute("ROLLBACK")
                if concurrent:
                    # Drops the index that the build has left.
                    conn.execute("DROP INDEX IF EXISTS jobq.extra")
                time.sleep(0.05)
        raise TimeoutError(f"no lock for: {statement}")

    def _check_indexes(self, conn):
        """Checks that each index has an entry for each row that belongs in it, including rows that are newer than the index."""
        for name, problem in conn.execute(
                "SELECT i.indexrelid::regclass::text, i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " WHERE i.indrelid = 'jobq.jobs'::regclass AND i.indisvalid AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')").fetchall():
            try:
                conn.execute("SELECT bt_index_check(%s, true)", (problem,))
            except psycopg.errors.IndexCorrupted as error:
                self.findings.append(f"{name}: {error}")

    def _lose_claim_index(self):
        """Rebuilds the claim index and cancels the build. Until the build is repeated, all calls raise 55000."""
        run = self.run
        with run.primary.connect(run.database) as holder, run.primary.connect(run.database) as builder:
            self._insist(builder, "DROP INDEX jobq.jobs_ready_idx")
            build = "INDEX CONCURRENTLY jobs_ready_idx ON jobq.jobs (_lane, priority, run_at, id) WHERE _ready"
            holder.execute("BEGIN; SELECT count(*) FROM jobq.jobs WHERE false; SELECT pg_current_xact_id()")
            builder.execute("SET statement_timeout = '700ms'; SET lock_timeout = 0")
            try:
                builder.execute("CREATE " + build)
            except psycopg.errors.QueryCanceled:
                pass
            holder.execute("ROLLBACK")
            builder.execute("RESET statement_timeout")
            time.sleep(1)
            builder.execute("REINDEX INDEX CONCURRENTLY jobq.jobs_ready_idx")

    def _cancel_build(self):
        """Leaves an invalid index, which claims must not use until it is dropped."""
        run = self.run
        with run.primary.connect(run.database) as holder, run.primary.connect(run.database) as builder:
            holder.execute("BEGIN; SELECT jobq_enqueue('held for a moment')")
            builder.execute("SET statement_timeout = '700ms'")
            try:
                builder.execute("CREATE INDEX CONCURRENTLY extra ON jobq.jobs (queue, id)")
            except psycopg.errors.QueryCanceled:
                pass
            holder.execute("ROLLBACK")
            builder.execute("RESET statement_timeout")
            time.sleep(1)
            self._insist(builder, "DROP INDEX IF EXISTS jobq.extra")

    def _repack(self):
        run = self.run
        with run.primary.connect(run.database) as conn:
            conn.execute("CREATE EXTENSION IF NOT EXISTS pg_repack")
        subprocess.run(["pg_repack", "-h", run.primary.sockets, "-p", str(run.primary.port), "-U", "postgres", "-d", run.database,
                        "-t", "jobq.jobs", "--no-superuser-check", "--wait-timeout=10", "--no-kill-backend"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
        with run.primary.connect(run.database) as conn:
            conn.execute("DROP EXTENSION pg_repack")

    # Rows as they arrive from another server: all columns are set, and no trigger fills any.
    COMPLETE_ROWS = """INSERT INTO jobq.jobs (queue, payload, run_at, _ready, max_attempts, status, _lane)
        SELECT 'audit', jsonb_build_object('k', 'by hand ' || clock_timestamp() || ' ' || n), t, true, 1000, 'pending', jobq.lane_of('audit', '', 0, NULL)
        FROM generate_series(1, 200) n, (SELECT clock_timestamp() AS t) c RETURNING payload->>'k', id"""

    def _insert_in_replica_role(self):
        with self.run.primary.connect(self.run.database) as conn:
            conn.execute("SET session_replication_role = replica")
            self.run.add_by_hand(conn, self.COMPLETE_ROWS)

    def _insert_without_triggers(self):
        with self.run.primary.connect(self.run.database) as conn:
            self._insist(conn, "ALTER TABLE jobq.jobs DISABLE TRIGGER USER")
            self.run.add_by_hand(conn, self.COMPLETE_ROWS)
            self._insist(conn, "ALTER TABLE jobq.jobs ENABLE TRIGGER USER")

    # ---- moves to another database and to another server

    def _dump_and_restore(self):
        """Dumps the busy queue. In the copy, each unfinished job must run once, and no other job."""
        run, where = self.run, ["-h", self.run.primary.sockets, "-p", str(self.run.primary.port), "-U", "postgres"]
        dump = os.path.join(run.disk, "dump")
        subprocess.run(["pg_dump", *where, "-Fc", "-f", dump, run.database], check=True)
        with run.primary.connect() as conn:
            conn.execute("CREATE DATABASE copy")
        subprocess.run(["pg_restore", *where, "-d", "copy", dump], check=True)
        os.remove(dump)
        with run.primary.connect("copy") as conn:
            if not conn.execute("SELECT jobq_adopt()").fetchone()[0]:
                raise AssertionError("a restored dump is not recognized as a copy")
            unfinished = "SELECT count(*) FROM jobq.jobs WHERE queue = 'audit' AND status <= 'processing'"
            finished = "SELECT count(*) FROM jobq.jobs WHERE queue = 'audit' AND status = 'completed'"
            open_jobs, done = conn.execute(unfinished).fetchone()[0], conn.execute(finished).fetchone()[0]
            taken = 0

            def drained():
                nonlocal taken
                rows = conn.execute("SELECT c.completed FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases"
                                    " FROM jobq_claim('audit', 'copy', 500)) t, jobq_complete_many(t.ids, t.leases) c WHERE t.ids IS NOT NULL").fetchall()
                taken += sum(1 for row in rows if row[0])
                return conn.execute(unfinished).fetchone()[0] == 0
            wait_for(drained, "the copy drains", 120)
            if taken != open_jobs or conn.execute(finished).fetchone()[0] != done + open_jobs:
                raise AssertionError(f"the copy had {open_jobs} unfinished jobs, and ran {taken}")
        with run.primary.connect() as conn:
            conn.execute("DROP DATABASE copy WITH (FORCE)")

    TABLES = "jobs attempts lane_directory queue_settings limit_settings kept_keys edges deleted_dependencies"

    def _switch_over(self):
        """Moves to another server by logical replication with two_phase, with prepared transactions during the move."""
        run = self.run
        self.port += 1
        old, new = run.primary, Server(run.primary.bin, run.disk, run.primary.sockets, f"server{self.port}", self.port)
        new.create(run.conf)
        new.start()
        new.up()
        tables = [f"jobq.{name}" for name in self.TABLES.split()] + ["effects"]
        with new.connect() as conn:
            conn.execute(f"CREATE DATABASE {run.database}")
        with old.connect(run.database) as there, new.connect(run.database) as here:
            here.execute("CREATE EXTENSION jobq")
            here.execute("CREATE EXTENSION amcheck")
            here.execute("CREATE TABLE effects (id bigint, lease bigint, key text, client text, number int)")
            here.execute("CREATE FUNCTION passes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$")
            # The workers of the second server must not act on the replicated jobs, so they are switched off until it takes over.
            here.execute("ALTER SYSTEM SET jobq.enabled = off")
            here.execute("SELECT pg_reload_conf()")
            self._insist(there, f"CREATE PUBLICATION moving FOR TABLE {', '.join(tables)}")
            here.execute("TRUNCATE jobq.lane_directory, jobq.queue_settings")
            here.execute(f"CREATE SUBSCRIPTION moving CONNECTION 'host={old.sockets} port={old.port} user=postgres dbname={run.database}'"
                         f" PUBLICATION moving WITH (two_phase = true)")
            wait_for(lambda: here.execute("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel").fetchone()[0], "the tables are copied")
            for number in range(5):
                there.execute("BEGIN")
                run.add_by_hand(there, "SELECT %s, jobq_enqueue('audit', jsonb_build_object('k', %s::text))", (f"prepared {number}",) * 2, prepare=f"p{number}")
            time.sleep(2)
            for number in range(5):
                there.execute(f"COMMIT PREPARED 'p{number}'")
            # The old server accepts no more connections; what it has committed is sent before it stops.
            there.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            there.execute("SELECT pg_reload_conf()")
            there.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'jobq audit %'")
            there.execute("ALTER SYSTEM SET jobq.enabled = off")
            there.execute("SELECT pg_reload_conf()")
            wait_for(lambda: there.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq worker'").fetchone()[0] == 0,
                     "the workers of the old server have exited")
            end = there.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
            wait_for(lambda: there.execute("SELECT bool_and(confirmed_flush_lsn >= %s) FROM pg_replication_slots", (end,)).fetchone()[0],
                     "all changes have been replicated")
            highest = there.execute("SELECT last_value FROM jobq.jobs_id_seq").fetchone()[0]
            here.execute("DROP SUBSCRIPTION moving")
            here.execute("SELECT setval('jobq.jobs_id_seq', %s)", (highest + 100000,))
            here.execute("ALTER SYSTEM RESET jobq.enabled")
            here.execute("SELECT pg_reload_conf()")
        old.stop()
        run.check_log(old)
        run.primary = new
        run.set_endpoint(new.port)
        subprocess.run(["rm", "-rf", old.data], check=True)
