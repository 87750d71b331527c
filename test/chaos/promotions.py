"""Promotions of a standby under load, in a chain of three servers: the primary, its standby, and a standby of that standby.

At each promotion, one worker holds a lease that the new primary knows, and another holds a lease that it does not know. The old
primary is rewound with pg_rewind and becomes the standby of its successor, so that the chain is complete again.
"""

import signal
import threading

import psycopg

from servers import Server, wait_for

LEVELS = ("on", "remote_write", "remote_apply")
# What a report with an unknown lease must return; it must not change anything.
REFUSALS = {
    "jobq_heartbeat({id}, {lease})": "lost",
    "jobq_complete({id}, {lease})": False,
    "jobq_complete({id}, {lease}, must_hold => true)": "JQ001",
    "jobq_fail({id}, {lease}, 'stale')": None,
    "jobq_release({id}, {lease})": False,
    "jobq_snooze({id}, '1 s', {lease})": False,
    "(jobq_heartbeat_many('{{{id}}}', '{{{lease}}}')).state": "lost",
    "(jobq_complete_many('{{{id}}}', '{{{lease}}}')).completed": False,
    "(jobq_fail_many('{{{id}}}', '{{{lease}}}')).status": None,
    "(jobq_release_many('{{{id}}}', '{{{lease}}}')).released": False,
    "count(*) FROM jobq_complete_and_claim('{{{id}}}', '{{{lease}}}', queue => 'nothing')": 0,
}
AT_LEAST = 30    # number of jobs to be enqueued and finished before the load counts as running


def number(place):
    """A position in the log as a number."""
    high, low = place.split("/")
    return (int(high, 16) << 32) + int(low, 16)


class Commit(threading.Thread):
    """Commits a claim whose COMMIT is never acknowledged."""

    def __init__(self, conn):
        super().__init__(daemon=True)
        self.conn, self.pid, self.acknowledged = conn, conn.info.backend_pid, False

    def run(self):
        try:
            self.conn.execute("COMMIT")
            self.acknowledged = True
        except psycopg.Error:
            pass


class Promotions:
    def __init__(self, run):
        self.run = run
        self.forks = {}         # timeline: the position at which a promotion cut it off, and whether the standby was synchronous
        self.findings = []      # failures of jobq
        primary, sockets = run.primary, run.primary.sockets
        self.chain = [primary]
        for name in ("server2", "server3"):
            server = Server(primary.bin, run.disk, sockets, name, primary.port + len(self.chain))
            run.servers.append(server)
            server.copy_of(self.chain[-1])
            server.start()
            self._await_stream(server)
            self.chain.append(server)

    # ---- queries

    def _ask(self, server, statement, parameters=None):
        with server.connect(self.run.database) as conn:
            return conn.execute(statement, parameters).fetchone()

    def _set(self, server, **settings):
        with server.connect() as conn:
            for name, value in settings.items():
                conn.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            conn.execute("SELECT pg_reload_conf()")

    def _end_of_log(self, server):
        return self._ask(server, "SELECT pg_current_wal_insert_lsn()")[0]

    def _await_replay(self, server, place):
        wait_for(lambda: self._ask(server, "SELECT pg_last_wal_replay_lsn() >= %s", (place,))[0], f"{server.name} has replayed {place}")

    def _await_stream(self, server, sender=None):
        def streams():
            try:
                return self._ask(server, "SELECT status = 'streaming' AND sender_port = coalesce(%s, sender_port) FROM pg_stat_wal_receiver",
                                 (sender.port if sender else None,)) == (True,)
            except psycopg.OperationalError:     # starting
                return False
        wait_for(streams, f"{server.name} streams")

    def _await_load(self, server):
        def jobs():
            return self._ask(server, "SELECT count(*), count(finished_at) FROM jobq.jobs WHERE queue = 'audit'")
        before = jobs()
        wait_for(lambda: all(now >= then + AT_LEAST for now, then in zip(jobs(), before)), f"load on {server.name}")

    # ---- claims

    def _claim(self, server):
        with server.connect(self.run.database) as conn:
            return self._claim_by(conn)

    def _claim_by(self, conn):
        return conn.execute("SELECT id, lease FROM jobq_claim('probe', 'probe', heartbeat_timeout => '1 hour')").fetchone()

    def _claim_that_nobody_acknowledges(self, server, commit):
        """Claims in a transaction that stays open, or whose commit waits for a standby that is gone."""
        conn = server.connect(self.run.database)
        conn.execute("BEGIN")
        lease = self._claim_by(conn)
        ending = Commit(conn)
        if commit:
            ending.start()
            wait_for(lambda: self._ask(server, "SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = %s", (ending.pid,)) == (True,),
                     "the commit waits")
        return lease, ending

    def _report(self, server, call, job, lease):
        try:
            return self._ask(server, "SELECT " + call.format(id=job, lease=lease))[0]
        except psycopg.Error as error:
            return error.sqlstate

    def _expect_kept(self, server, job, lease):
        for call, wanted in (("jobq_heartbeat({id}, {lease})", "held"), ("jobq_complete({id}, {lease})", True)):
            found = self._report(server, call, job, lease)
            if found != wanted:
                self.findings.append(f"a lease that was acknowledged and replicated: {call} is {found}, not {wanted}")

    def _expect_stale(self, server, job, lease):
        for call, wanted in REFUSALS.items():
            found = self._report(server, call, job, lease)
            if found != wanted:
                self.findings.append(f"stale lease: {call} is {found}, not {wanted}")
        row = self._ask(server, "SELECT status::text, lease FROM jobq.jobs WHERE id = %s", (job,))
        if row != ("pending", None):
            self.findings.append(f"stale lease: its job is {row}")
            return
        again, new = self._claim(server)
        if again != job or new == lease or self._report(server, "jobq_complete({id}, {lease})", job, lease):
            self.findings.append(f"stale lease: job {job} under {lease}, claimed anew: {again} under {new}")
        self._expect_kept(server, again, new)

    # ---- synchronous and asynchronous standbys

    def _be_synchronous(self, primary, standby, level):
        """Returns when each later commit waits for the standby and all earlier commits have arrived there."""
        self._set(primary, synchronous_standby_names=f'"{standby.name}"', synchronous_commit=level)
        with primary.connect() as conn:
            def holds(statement):
                return lambda: conn.execute(statement, (standby.name,)).fetchone()[0]
            wait_for(holds("SELECT count(*) > 0 FROM pg_stat_replication WHERE application_name = %s AND sync_state = 'sync'"), "the standby is synchronous")
            # Each session checks in one place whether it must wait.
            wait_for(holds("SELECT count(*) > 0 AND %s <> '' FROM pg_stat_activity WHERE wait_event = 'SyncRep'"), "a session has waited")
            place = conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
            wait_for(lambda: conn.execute("SELECT write_lsn >= %s AND flush_lsn >= %s AND replay_lsn >= %s FROM pg_stat_replication"
                                          " WHERE application_name = %s", (place,) * 3 + (standby.name,)).fetchone() == (True,), "all commits have arrived")

    def _be_asynchronous(self, server):
        self._set(server, synchronous_standby_names="", synchronous_commit="on")
        wait_for(lambda: self._ask(server, "SHOW synchronous_standby_names")[0] == "", "commits wait for no standby")

    # ---- a promotion

    def promote(self, level=None, old_lives_on=False, end_of_chain=False):
        """`level`: the standby is synchronous. `old_lives_on`: the old primary does not know of the promotion and still accepts calls."""
        run = self.run
        old, standby, last = self.chain
        new, lost = (last, [old, standby]) if end_of_chain else (standby, [old])
        self._be_asynchronous(new)       # after its promotion
        if level:
            self._be_synchronous(old, new, level)
        else:
            self._be_asynchronous(old)
        kept = self._claim(old)
        self._await_replay(new, self._end_of_log(old))
        self._await_load(old)
        if old_lives_on:
            replayed = self._promote(new)
        elif not level:
            self._cut_off(new)
        if level:
            stale, commit = self._claim_that_nobody_acknowledges(old, old_lives_on)
        else:
            stale, commit = self._claim(old), None
            for _ in range(2):      # the answer to the last statement may be lost
                self._await_load(old)
        old.stop()
        if end_of_chain:
            standby.stop(signal.SIGINT)
        if not old_lives_on:
            replayed = self._promote(new)
        if commit is not None and commit.ident is not None:
            commit.join(60)
            if commit.is_alive() or commit.acknowledged:
                self.findings.append("a commit was acknowledged that no standby has")
        run.primary = new
        run.set_endpoint(new.port)
        self._note_fork(new, replayed, bool(level))
        self._expect_kept(new, *kept)
        self._expect_stale(new, *stale)
        if not end_of_chain:
            self._follows(last, new)
        self._mend_chain(new, lost, last)
        for server in lost:
            run.check_log(server)

    def _promote(self, server):
        """Promotes the standby; returns the position that it had replayed before."""
        replayed = self._ask(server, "SELECT pg_last_wal_replay_lsn()")[0]
        server.promote()
        server.up()
        return replayed

    def _cut_off(self, standby):
        self._set(standby, primary_conninfo="")
        wait_for(lambda: self._ask(standby, "SELECT count(*) FROM pg_stat_wal_receiver")[0] == 0, f"{standby.name} is cut off")

    def _note_fork(self, new, replayed, synchronous):
        """The position at which the log of the old primary ends for the new primary."""
        timeline = self._ask(new, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)")[0]
        parent, place = self._ask(new, "SELECT pg_read_file('pg_wal/' || %s || '.history')", (timeline,))[0].split("\n")[-2].split("\t")[:2]
        if number(replayed) > number(place):
            self.findings.append(f"{new.name} had replayed {replayed} and continues from {place}")
        self.forks[f"{int(parent):08X}"] = number(place), synchronous

    def _follows(self, standby, primary):
        """A cascading standby follows the new timeline and answers queries."""
        place, timeline = self._ask(primary, "SELECT place, left(pg_walfile_name(place), 8) FROM pg_current_wal_insert_lsn() place")
        self._await_replay(standby, place)
        wait_for(lambda: self._ask(standby, "SELECT received_tli FROM pg_stat_wal_receiver") == (int(timeline, 16),),
                 f"{standby.name} is on timeline {timeline}")
        if self._report(standby, "jobq_claim('probe')", 0, 0) != "25006" or self._ask(standby, "SELECT count(*) FROM jobq.queue_stats")[0] < 2:
            self.findings.append(f"{standby.name}: claims are not refused, or views do not answer")

    def _mend_chain(self, new, lost, last):
        """Makes the old primary the standby of the new one, and the other server the standby of the old one."""
        with new.connect() as conn:
            conn.execute("CHECKPOINT")      # before PostgreSQL 16, pg_rewind needs this to see the new timeline
        for server in lost:
            server.rewind_to(new)
            server.start()
            self._await_stream(server, new)
        standby = lost[0]
        end = lost[1] if len(lost) > 1 else last
        self._set(end, primary_conninfo=f"host={standby.sockets} port={standby.port} user=postgres")
        self._await_stream(end, standby)
        self.chain = [new, standby, end]
        for server in self.chain[1:]:
            self._await_replay(server, self._end_of_log(new))

    # ---- at the end

    def differences(self):
        """The differences between the jobs of the standbys and the primary, in all columns, when nothing changes anymore."""
        digest = "SELECT count(*), md5(string_agg(j::text, '|' ORDER BY id)) FROM jobq.jobs j"

        def found():
            wanted = self._ask(self.chain[0], digest)
            return [server.name for server in self.chain[1:] if self._ask(server, digest) != wanted]
        try:
            wait_for(lambda: not found(), "the standbys are equal", 60)
        except TimeoutError:
            pass
        return found()
