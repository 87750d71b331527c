"""Stories of jobs that handlers run: for each law, correct ones and ones that break it."""


def claim(log, job, lease, transaction=None):
    (transaction or log.begin()).job(job, "processing", lease=lease, worker_id="backend:executor", lease_timeout="365000 days").commit()


def complete(log, job, lease, effects=1):
    """Not committed, so that the next claim may follow in the same transaction."""
    transaction = log.begin()
    for _ in range(effects):
        transaction.fact("effect", job, lease, client="executor 1")
    return transaction.job(job, "completed")


def lose(log, job, lease):
    log.begin().job(job, "pending").attempt(job, lease, "lost").commit()


def begun(log):
    log.enqueue(8)
    claim(log, 8, 1)


def one_by_one(log):
    begun(log)
    log.pass_time(1000)
    complete(log, 8, 1).commit()


def one_after_the_other(log):
    """The completion and the claim of the next job are one transaction."""
    begun(log)
    log.enqueue(9)
    claim(log, 9, 2, complete(log, 8, 1))
    complete(log, 9, 2).commit()


def failed_before(log):
    begun(log)
    log.begin().job(8, "pending").attempt(8, 1, "failed").commit()
    claim(log, 8, 2)
    complete(log, 8, 2).commit()


def released_by_itself(log):
    begun(log)
    log.begin().fact("release", 8, 1, client="executor 1").job(8, "pending").attempt(8, 1, "released").commit()
    log.run(8, 2)


def not_kept(log):
    begun(log)
    log.begin().fact("effect", 8, 1, client="executor 1").delete(8).commit()


def lost_with_its_executor(log):
    """The rules of the stories allow one lost executor."""
    begun(log)
    lose(log, 8, 1)
    claim(log, 8, 2)
    complete(log, 8, 2).commit()


def effect_doubled(log):
    begun(log)
    complete(log, 8, 1, effects=2).commit()


def effect_missing(log):
    """The effect of another job was written instead."""
    begun(log)
    log.begin().fact("effect", 7, 100, client="executor 1").job(8, "completed").commit()


def effect_of_a_failed_attempt(log):
    begun(log)
    log.say("effect", 8, 1, client="executor 1")
    log.begin().job(8, "pending").attempt(8, 1, "failed").commit()
    claim(log, 8, 2)
    complete(log, 8, 2).commit()


def effect_under_a_lost_lease(log):
    lost_with_its_executor(log)
    log.say("effect", 8, 1, client="executor 2")


def robbed_of_its_lease(log):
    begun(log)
    for lease in range(1, 4):
        lose(log, 8, lease)
        claim(log, 8, lease + 1)
    complete(log, 8, 4).commit()


CASES = {
    one_by_one: set(), one_after_the_other: set(), failed_before: set(), released_by_itself: set(), not_kept: set(),
    lost_with_its_executor: set(), effect_doubled: {"effects"}, effect_missing: {"effects", "stale lease accepted"},
    effect_of_a_failed_attempt: {"effects"}, effect_under_a_lost_lease: {"effects"}, robbed_of_its_lease: {"robbed"},
}

# The final rows: jobs, effects, attempts that did not complete; and whether anything is wrong.
ENDS = {
    "each effect once": (((8, "completed"), (9, "completed")), ((8, 1), (9, 3)), ((9, 2),), False),
    "an effect missing": (((8, "completed"),), (), (), True),
    "an effect doubled": (((8, "completed"),), ((8, 1), (8, 2)), (), True),
    "an effect of an attempt that failed": (((8, "completed"),), ((8, 1),), ((8, 1),), True),
    "an effect of a job that does not exist": ((), ((8, 1),), (), True),
    "a job left over": (((8, "pending"),), (), (), True),
}
