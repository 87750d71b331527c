"""Functions that build logs as the witness would have read them, for the stories that test the laws."""

import json
from datetime import datetime, timezone

import laws
from witness import Attempt, Change, Fact, Job

RULES = laws.Rules(dead_letters={"dying": "dead", "halting": "dead"}, halting=("halting",), depths={"full": 2}, max_runtimes={"hasty": 0.5},
                   rates={"rated": (10, 1.0)}, ageing={"aged": 1.0}, in_turn=("fair",),
                   cancel_grace=1.0, sessions_lost=0, executors_lost=1)


def stamp(time):
    return datetime.fromtimestamp(time, timezone.utc).isoformat()


class Transaction:
    def __init__(self, log):
        self.log = log
        log.xids += 1
        self.xid = log.xids
        self.written = []

    def write(self, row, deleted=False, inserted=False):
        self.log.place += 1
        self.written.append(((self.log.place, 0), row, deleted, inserted))
        return self

    def fact(self, op, job=None, lease=None, client="w0", **detail):
        now = stamp(self.log.time)
        return self.write(Fact(client, self.xid, op, job, lease, json.dumps(detail), now, now))

    def job(self, job, status, **fields):
        """The next version of a job. Columns that are not named keep their values, except the lease, which follows the status."""
        row = self.log.rows.get(job, Job(id=job, run_at=stamp(self.log.time)))
        fields.setdefault("lease", row.lease if status == "processing" else None)
        if status == "processing" and row.status != "processing":
            now = stamp(self.log.time)
            fields = {"started_at": now, "worker_id": "w", "last_heartbeat": now, "lease_timeout": "00:00:01", **fields}
        row = row._replace(status=status, **fields)
        self.log.rows[job] = row
        return self.write(row)

    def delete(self, job):
        del self.log.rows[job]
        return self.write(Job(id=job), deleted=True)

    def attempt(self, job, lease, outcome):
        return self.write(Attempt(job, lease, outcome))

    def commit(self):
        log = self.log
        log.place += 1
        log.time += 0.01
        log.changes += [Change(place, (log.place, 0), log.time, self.xid, row, deleted, inserted)
                        for place, row, deleted, inserted in self.written]


class Log:
    """Initially one job that was enqueued, claimed, and completed correctly."""

    def __init__(self):
        self.place = 0
        self.xids = 0
        self.time = 1e9
        self.rows = {}
        self.changes = []
        self.enqueue(7)
        self.claim(7, 100)
        self.complete(7, 100)

    def begin(self):
        return Transaction(self)

    def pass_time(self, seconds):
        self.time += seconds

    def enqueue(self, job, status="pending", client="p0", depends_on=(), run="cancel", **fields):
        detail = {"depends_on": depends_on, "on_dependency_failure": run} if depends_on else {}
        self.begin().job(job, status, **fields).fact("enqueue", job, client=client, **detail).commit()

    def claim(self, job, lease, client="w0"):
        self.begin().job(job, "processing", lease=lease).fact("claim", job, lease, client=client).commit()

    def complete(self, job, lease, client="w0"):
        self.begin().job(job, "completed").fact("complete", job, lease, client=client).commit()

    def run(self, job, lease):
        self.claim(job, lease)
        self.complete(job, lease)

    def fail(self, job, lease, status="failed", **fields):
        self.begin().job(job, status, **fields).attempt(job, lease, "failed").fact("fail", job, lease).commit()

    def server(self, job, status, **fields):
        self.begin().job(job, status, **fields).commit()

    def say(self, op, job=None, lease=None, client="o0", **detail):
        self.begin().fact(op, job, lease, client=client, **detail).commit()

    def found(self):
        self.changes.sort(key=lambda change: change.place)
        return set(laws.check(self.changes, RULES).found())
