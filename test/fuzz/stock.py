"""Good values, by the argument names of jobq, and the jobs that they refer to.

An argument with another name gets a good value of its type. Good values are needed so that a nasty value can be tested alone:
calls must often succeed, on jobs in every state.
"""

import random

import roles
import statuses
from values import quoted

def quoted_name(name):
    return '"' + name.replace('"', '""') + '"'


# The settings of the queues; each gets jobs of all kinds.
QUEUES = {
    "fuzz plain": "max_attempts => 3",
    "fuzz limited": "max_attempts => 5",
    "fuzz keyed": "keep_completed => '0'",
    "fuzz fair": "round_robin => true",
    "fuzz ageing": "priority_ageing => '50 ms'",
    "fuzz dying": "max_attempts => 1, dead_letter_queue => 'fuzz dead'",
    "fuzz shallow": "max_depth => 40, on_full => 'drop_oldest'",
    "fuzz hasty": "max_runtime => '300 ms', on_max_runtime => 'cancel', heartbeat_timeout => '1 s'",
    "fuzz halting": "max_attempts => 1, group_on_failure => 'halt'",
}
LIMITS = ("'fuzz limited', max_running => 4", "'fuzz keyed', '*', max_running => 2", "'fuzz keyed', 'k1', max_running => 1",
          "'fuzz limited', kind => '*', max_running => 3", "'fuzz limited', rate => 1000, per => '1 s'")
GRANTEE = "grantee"     # a role to which privileges are granted and from which they are revoked

SAMPLE = """
SELECT id, lease, status::text, queue FROM (
    SELECT id, lease, status, queue, row_number() OVER (PARTITION BY status ORDER BY random()) AS n FROM jobq.jobs) j
WHERE n <= 25
"""

# Creates some jobs in every state in every queue, whatever calls have changed in the meantime. Runs as a superuser.
REPLENISH = """
DO $do$
DECLARE
    q text;
    taken bigint[];
    leases bigint[];
    amount int := 12;
    surplus bigint;
BEGIN
    DELETE FROM jobq.kind_settings WHERE queue LIKE 'fuzz %';
    DELETE FROM jobq.limit_settings WHERE max_running = 0 OR rate < 100;
    UPDATE jobq.queue_settings SET paused = false WHERE paused AND queue LIKE 'fuzz %';
    SELECT count(*) INTO surplus FROM jobq.jobs;
    IF surplus > {most} THEN
        DELETE FROM jobq.jobs WHERE id IN (SELECT id FROM jobq.jobs WHERE status <> 'processing' ORDER BY id
                                           LIMIT surplus - {most} / 2 FOR UPDATE SKIP LOCKED);
    END IF;
    FOREACH q IN ARRAY {queues} LOOP
        CONTINUE WHEN (SELECT count(*) FROM jobq.jobs j WHERE j.queue = q AND j.status = 'pending') > 60;
        BEGIN
            PERFORM jobq_enqueue(q, to_jsonb(i), kind => CASE i % 4 WHEN 0 THEN 'other' ELSE '' END,
                                 concurrency_key => 'k' || i % 3, priority => i % 3, options => jsonb_build_object('version', i % 2))
            FROM generate_series(1, amount) i;
            PERFORM jobq_enqueue(q, unique_key => 'u' || i, unique_for => CASE i WHEN 1 THEN interval '100 ms' END)
            FROM generate_series(1, 3) i;
            PERFORM jobq_enqueue(q, run_at => clock_timestamp() + i * interval '200 ms') FROM generate_series(1, 5) i;
            PERFORM jobq_enqueue(q, run_at => clock_timestamp() + interval '1 hour') FROM generate_series(1, 3) i;
            PERFORM jobq_enqueue(q, group_key => 'g' || i % 2) FROM generate_series(1, 4) i;
            PERFORM jobq_enqueue(q, depends_on => ARRAY[jobq_enqueue(q), jobq_enqueue(q)]);
            PERFORM jobq_enqueue(q, options => '{{"requires": ["gpu"]}}');
            INSERT INTO jobq.jobs (queue, payload) VALUES (q, '"by hand"');
            SELECT array_agg(c.id), array_agg(c.lease) INTO taken, leases
            FROM jobq_claim(q, 'supplier', batch => amount + 4, heartbeat_timeout => '3 s') c;
            PERFORM jobq_complete(taken[1], leases[1], '"good"'), jobq_fail(taken[2], leases[2], 'bad', retry => false),
                    jobq_fail(taken[3], leases[3], 'bad'), jobq_cancel(taken[4]), jobq_cancel(taken[5]),
                    jobq_step_done(taken[6], leases[6], 'charge'), jobq_await(taken[8], leases[8], 'delivered', '1 s'),
                    jobq_snooze(taken[6], '1 s', leases[6]), jobq_cancel(taken[7]), jobq_release(taken[7], leases[7])
            WHERE taken[8] IS NOT NULL;
        EXCEPTION WHEN others THEN
            -- The queue is full or dropped, or there was a deadlock: tried again later. Internal errors are not hidden.
            IF sqlstate = 'XX000' THEN RAISE; END IF;
        END;
    END LOOP;
END $do$
"""


def replenish_statement(most=3000):
    queues = "ARRAY[" + ", ".join(quoted(queue) for queue in QUEUES) + "]"
    return REPLENISH.format(queues=queues, most=most)


def set_up(conn):
    for name, settings in QUEUES.items():
        conn.execute(f"SELECT jobq_create_queue({quoted(name)}, {settings})")
    for limit in LIMITS:
        conn.execute(f"SELECT jobq_set_limit({limit})")
    conn.execute("CREATE FUNCTION public.fuzz_handler(job jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT job'")
    conn.execute(replenish_statement())


class Stock:
    """The jobs that a client knows, including those of earlier queries, whose leases are stale by now."""

    def __init__(self):
        self.by_status = {status: [] for status in statuses.ALL}
        self.stale = []

    def look(self, conn):
        self.stale = (self.by_status["processing"] + self.stale)[:60]
        self.by_status = {status: [] for status in statuses.ALL}
        for job, lease, status, queue in conn.execute(SAMPLE).fetchall():
            self.by_status[status].append((job, lease, queue))

    def jobs(self, chance, count, leased):
        """`count` jobs as (id, lease): running ones if the function needs leases, otherwise in any state."""
        found = []
        for _ in range(count):
            if leased and self.by_status["processing"] and chance.random() < 0.75:
                pool = self.by_status["processing"]
            elif leased and self.stale and chance.random() < 0.5:
                pool = self.stale
            else:
                pool = self.by_status[chance.choice(statuses.ALL)]
            job, lease, _ = chance.choice(pool) if pool else (chance.choice((0, -7, 1 << 40)), None, None)
            found.append((job, lease or chance.randrange(1, 1 << 53)))
        return found


# An argument that is rejected without another one.
EITHER = ("delay", "until")
NEEDS = {"on_conflict": "unique_key", "unique_for": "unique_key", "rate": "per", "per": "rate"}


class Case:
    """Good values for one call that match each other: leases match their jobs, and arrays have equal lengths."""

    def __init__(self, function, stock, chance):
        self.function = function
        self.chance = chance
        self.count = chance.choice((0, 1, 1, 2, 3, 5))
        names = {argument.name for argument in function.arguments}
        self.leased = bool(names & {"lease", "leases"})
        self.pairs = stock.jobs(chance, max(self.count, 1), self.leased)
        self.others = stock.jobs(chance, 2, False)
        self.given = set()

    def values(self, fewest=False):
        """By argument: all required arguments and some of the optional ones."""
        given = []
        for argument in self.function.arguments:
            if not argument.optional or (not fewest and self.chance.random() < 0.4) or self._must(argument.name):
                given.append(argument)
        names = {argument.name for argument in given}
        wanted = {NEEDS[name] for name in names if name in NEEDS} - names
        given += [argument for argument in self.function.arguments if argument.name in wanted]
        if {argument.name for argument in self.function.arguments} >= set(EITHER):
            one = self.chance.choice(EITHER)
            given = [argument for argument in given if argument.name not in EITHER]
            given += [argument for argument in self.function.arguments if argument.name == one]
        self.given = {argument.name for argument in given}
        order = {argument.name: number for number, argument in enumerate(self.function.arguments)}
        given.sort(key=lambda argument: order[argument.name])
        return {argument.name: self.value(argument) for argument in given}

    def _must(self, name):
        # Only the claiming transaction may omit the lease; without a timeout, a wait takes half a minute.
        return name in ("lease", "timeout") and (self.leased or self.function.procedure)

    def value(self, argument):
        drawn = _BY_NAME.get(argument.name, _BY_TYPE.get(argument.type))
        if drawn is None:
            # A type that is not known here.
            return f"NULL::{argument.type}"
        return f"({drawn(self)})::{argument.type}"

    def one(self, *choices):
        return self.chance.choice(choices)

    def text(self, *choices):
        return quoted(self.chance.choice(choices))

    def array(self, element, least=0):
        made = [element() for _ in range(max(self.count, least))]
        return f"ARRAY[{', '.join(made)}]"

    def numbers_of_queues(self, *choices):
        """One number for each queue and pattern that the call names."""
        count = max(self.count, 1) * len(self.given & {"queues", "patterns"})
        return f"ARRAY[{', '.join(self.one(*choices) for _ in range(count))}]::integer[]"

    def queue(self):
        return self.text(*QUEUES, "fuzz dead", "fuzz other")

    def name(self):
        if "schedule" in self.function.name:
            return quoted(f"fuzz {self.chance.randrange(20)}")
        if self.leased:
            return self.step()
        if "create" in self.function.name:
            return quoted(f"fuzz {self.chance.randrange(200)}")
        # This deletes other clients' jobs, so it is drawn rarely.
        if "drop" in self.function.name or "purge" in self.function.name:
            return quoted(f"fuzz {self.chance.randrange(200)}") if self.chance.random() < 0.8 else self.queue()
        return self.queue()

    def step(self):
        return self.text("charge", "ship", "pause", "mail")

    def ids(self):
        return self.array(lambda: str(self.chance.choice(self.others)[0]))

    def mode(self):
        return self.text("all", "any")

    def event(self):
        return self.text("delivered", "paid")

    def callback(self):
        return self.text('{"queue": "fuzz plain"}', '{"queue": "fuzz keyed", "kind": "other", "priority": 1, "metadata": {"a": 1}}')

    def json(self):
        return self.text("{}", "1", '"x"', '{"n": [1, 2, {"deep": null}]}', "[]", '{"percent": 50}')

    def specs(self):
        if "schedule" in self.function.name:
            texts = [f'{{"name": "fuzz {number}", "cron": "@every 1s", "queue": "fuzz plain"{rest}}}'
                     for number, rest in enumerate(("", ', "overlap": "replace", "jitter": "1 s"', ', "missed": "all", "paused": false'))]
            return quoted("[" + ", ".join(self.chance.sample(texts, self.chance.randrange(len(texts) + 1))) + "]")
        if self.chance.random() < 0.3:
            # A graph of jobs; sometimes an element refers to one that does not exist or that comes later.
            return quoted(self.one(
                '[{"queue": "fuzz plain", "ref": "a"}, {"queue": "fuzz fair", "ref": "b", "depends_on": ["@a"]}, '
                '{"queue": "fuzz plain", "depends_on": ["@a", "@b"], "on_dependency_failure": "run"}]',
                '[{"queue": "fuzz keyed", "ref": "a", "unique_key": "s1"}, {"queue": "fuzz plain", "depends_on": ["@a"]}]',
                '[{"queue": "fuzz plain", "ref": "a"}, {"queue": "fuzz plain", "ref": "a"}]',
                '[{"queue": "fuzz plain", "depends_on": ["@b"]}, {"queue": "fuzz plain", "ref": "b"}]'))
        texts = ('{"queue": "fuzz plain"}', '{"queue": "fuzz fair", "payload": 1, "priority": -1, "concurrency_key": "k1"}',
                 '{"queue": "fuzz keyed", "unique_key": "s1", "on_conflict": "replace", "unique_for": "1 s"}',
                 '{"queue": "fuzz plain", "group_key": "g1", "metadata": {"a": 1}, "requires": ["gpu"], "max_attempts": 2}',
                 '{"queue": "fuzz dying", "run_at": "2030-01-01 00:00:00+00", "version": 7, "kind": "other"}')
        return quoted("[" + ", ".join(self.chance.choice(texts) for _ in range(self.count)) + "]")

    def when(self):
        return self.one("clock_timestamp()", "clock_timestamp() + interval '300 ms'", "clock_timestamp() - interval '1 hour'",
                        "clock_timestamp() + interval '1 day'")

    def soon(self):
        return self.one("clock_timestamp()", "clock_timestamp() + interval '1 s'", "clock_timestamp() - interval '1 s'")

    def job(self):
        return str(self.pairs[0][0])

    def lease(self):
        return str(self.pairs[0][1])

    def span(self):
        return self.text("0", "10 ms", "1 s", "1 minute", "1 day")

    def long_enough(self):
        return self.text("20 ms", "1 s", "1 minute", "30 days")

    def status(self):
        if "cancel" in self.function.name:
            return self.text(*statuses.UNFINISHED)
        if "reschedule" in self.function.name:
            return self.text("scheduled", "pending")
        if "retry" in self.function.name:
            return self.text("scheduled", *statuses.FINISHED)
        return self.text(*statuses.WAITING, *statuses.FINISHED)

    def key(self):
        return self.text("k0", "k1", "k2", "*" if self.function.named("max_running") else "k3")


_BY_NAME = {
    "step": Case.step, "event": Case.event, "until": Case.when, "ids": Case.ids, "mode": Case.mode,
    "queue": Case.queue, "name": Case.name, "dead_letter_queue": lambda case: case.text("fuzz dead", "fuzz other dead"),
    "queues": lambda case: case.array(case.queue, 1),
    "patterns": lambda case: case.array(lambda: case.text("fuzz %", "%", "fuzz ______", "none"), 1),
    "weights": lambda case: case.numbers_of_queues("1", "3", "1000"), "batches": lambda case: case.numbers_of_queues("0", "1", "5"),
    "specs": Case.specs,
    "cron": lambda case: case.text("*/5 * * * *", "0 9 * * mon-fri", "30 2 29 2 *"), "after": Case.when,
    "missed": lambda case: case.text("once", "all", "skip"), "max_missed": lambda case: case.one("1", "1000"),
    "overlap": lambda case: case.text("allow", "skip", "replace"), "deadline": Case.long_enough, "jitter": Case.span,
    "starts_at": lambda case: case.one("clock_timestamp()", "clock_timestamp() - interval '1 day'"),
    "ends_at": lambda case: case.one("clock_timestamp() + interval '1 s'", "clock_timestamp() + interval '1 day'"),
    "source": lambda case: case.text("", "fuzz"), "prune": lambda case: case.one("false", "false", "true"),
    "paused": lambda case: case.one("false", "false", "true"),
    "options": lambda case: case.text("{}", '{"version": 1, "max_runtime": "1 min"}', '{"requires": ["gpu"], "heartbeat_timeout": "1 s"}',
                                      '{"priority": 1, "max_attempts": 2}', '{"expires_in": "1 s"}', '{"batch_id": 1}', '{"unique_key": "u1", "metadata": {"a": 1}}'),
    "batch_id": Case.job, "on_complete": Case.callback, "on_success": Case.callback, "on_failure": Case.callback,
    "filter": lambda case: case.text("{}", '{"batch_id": 1}', '{"concurrency_key": "k1"}', '{"version": 1}', '{"group_key": "g1", "version": 0}'),
    "timezone": lambda case: case.text("UTC", "Europe/Berlin"), "n": lambda case: case.one("1", "5", "100"),
    "payloads": lambda case: case.array(case.json), "results": lambda case: case.array(case.json),
    "kind": lambda case: case.text("", "other"), "kinds": lambda case: case.array(lambda: case.text("", "other"), 1),
    "versions": lambda case: case.array(lambda: case.one("0", "1"), 1), "version": lambda case: case.one("0", "1", "-5"),
    "requires": lambda case: case.array(lambda: case.text("gpu", "disk")),
    "capabilities": lambda case: case.array(lambda: case.text("gpu", "disk", "x")),
    "priority": lambda case: str(case.chance.randrange(-3, 4)),
    "priorities": lambda case: case.array(lambda: str(case.chance.randrange(-3, 4))),
    "run_at": Case.when, "run_ats": lambda case: case.array(case.when), "now": Case.soon,
    "max_attempts": lambda case: case.one("1", "2", "20"), "max_lost": lambda case: case.one("1", "3"),
    "unique_key": lambda case: case.text("u1", "u2", "u3", "u4"),
    "unique_keys": lambda case: case.array(lambda: case.text("u1", "u2", "u3", "u4")),
    "unique_for": lambda case: case.text("0", "50 ms", "1 s"),
    "on_conflict": lambda case: case.text("ignore", "replace", "error"),
    "group_key": lambda case: case.text("g0", "g1"), "group_keys": lambda case: case.array(lambda: case.text("g0", "g1")),
    "concurrency_key": Case.key, "key": Case.key, "concurrency_keys": lambda case: case.array(case.key),
    "depends_on": lambda case: f"ARRAY[{', '.join(str(job) for job, _ in case.others[:case.count])}]",
    "on_dependency_failure": lambda case: case.text("cancel", "run"),
    "heartbeat_timeout": lambda case: case.text("500 ms", "3 s", "1 minute"), "max_runtime": Case.long_enough,
    "job_id": Case.job, "lease": Case.lease,
    "job_ids": lambda case: f"ARRAY[{', '.join(str(job) for job, _ in case.pairs[:case.count])}]",
    "leases": lambda case: f"ARRAY[{', '.join(str(lease) for _, lease in case.pairs[:case.count])}]",
    "errors": lambda case: case.array(lambda: case.text("it broke", "")), "error": lambda case: case.text("it broke", ""),
    "lines": lambda case: case.array(lambda: case.text("a line", "")),
    "levels": lambda case: case.array(lambda: case.text("debug", "info", "warning", "error")),
    "seconds_ago": lambda case: case.array(lambda: case.one("0", "1.5")),
    "must_hold": lambda case: case.one("false", "false", "true"), "force": lambda case: case.one("false", "true"),
    "worker_id": lambda case: case.text("w1", "w2", "supplier"),
    "worker_info": lambda case: case.text(*(f'{{"worker_id": "{worker}", "queues": ["fuzz"], "kinds": ["", "other"], "slots": 2}}' for worker in ("w1", "w2", "supplier"))),
    "batch": lambda case: case.one("1", "3", "10"), "max_jobs": lambda case: case.one("1", "5", "100"),
    "timeout": lambda case: case.text("0", "3 ms", "20 ms"),
    "retry_in": Case.span, "delay": Case.span, "older_than": Case.span,
    "statuses": lambda case: case.array(case.status, 1),
    "error_like": lambda case: case.text("%", "%broke%", "_"),
    "per_second": lambda case: case.one("10", "0.5", "1000"),
    "backoff_base": Case.span, "backoff_max": Case.span, "keep_completed": Case.span, "keep_failed": Case.span,
    "max_depth": lambda case: case.one("0", "50", "1000"), "on_full": lambda case: case.text("reject", "drop_oldest"),
    "on_max_runtime": lambda case: case.text("fail", "cancel"), "group_on_failure": lambda case: case.text("continue", "halt"),
    "priority_ageing": lambda case: case.text("0", "10 ms", "1 hour"), "expires_in": lambda case: case.text("0", "1 s", "1 hour"), "round_robin": lambda case: case.one("true", "false"),
    "max_running": lambda case: case.one("1", "5", "100"), "rate": lambda case: case.one("100", "5000"),
    "per": lambda case: case.text("1 s", "1 minute"),
    "handler": lambda case: quoted("public.fuzz_handler(jsonb)"), "run_as": lambda case: quoted(quoted_name(roles.user(GRANTEE))),
    "max_executors": lambda case: case.one("1", "2", "64"),
    "settings": lambda case: case.array(lambda: case.text("max_attempts", "backoff") if case.function.name == "jobq_drop_kind"
                                        else case.text("work_mem=4MB", "search_path=public", "fuzz.x=y")),
    "role": lambda case: quoted(roles.user(GRANTEE)), "profile": lambda case: case.text("producer", "worker", "operator", "monitor"),
}
_BY_TYPE = {
    "text": lambda case: case.text("x", "fuzz plain"), "jsonb": Case.json, "boolean": lambda case: case.one("true", "false"),
    "integer": lambda case: case.one("1", "2", "10"), "smallint": lambda case: case.one("1", "2"), "bigint": Case.job,
    "double precision": lambda case: case.one("1", "10"), "interval": Case.span, "timestamp with time zone": Case.when,
    "text[]": lambda case: case.array(lambda: case.text("x", "y")), "bigint[]": lambda case: case.array(case.job),
    "integer[]": lambda case: case.array(lambda: "1"), "jsonb[]": lambda case: case.array(case.json),
    "interval[]": lambda case: case.array(case.span),
    "jobq.job_status": Case.status, "jobq.job_status[]": lambda case: case.array(case.status),
}


def chance_of(seed, number):
    """The random choices of one call, which depend neither on the client nor on earlier calls."""
    return random.Random(f"{seed} {number}")
