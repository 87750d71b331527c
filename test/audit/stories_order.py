"""Stories of pauses, limits, groups, and dependencies: for each law, correct ones and ones that break it."""

from stories import stamp
from witness import Fact, KindSetting, Limit, NamedLimit, Setting

# Queues that are paused or limited

def pause(log, paused):
    log.begin().write(Setting("q", paused)).fact("pause", client="o0").commit()


def paused(log):
    log.enqueue(8)
    pause(log, True)
    log.say("answered")
    log.run(8, 1)


def paused_while_claiming(log):
    """The claim had reached the server before the pause was acknowledged."""
    log.enqueue(8)
    claim = log.begin()
    asked = stamp(log.time)
    pause(log, True)
    log.say("answered")
    claim.job(8, "processing", lease=1)
    claim.write(Fact("w0", 1, "claim", 8, 1, "{}", asked, stamp(log.time))).commit()
    pause(log, False)
    log.complete(8, 1)


def resumed(log):
    """The session that resumes a queue need not be told that it is paused."""
    paused_while_claiming(log)
    log.enqueue(9)
    log.run(9, 2)


def set_kind(log, heartbeat_timeout, deleted=False):
    log.begin().write(KindSetting("q", "a", heartbeat_timeout), deleted).fact("kind", client="o0").commit()
    log.say("answered")


def kind_obeyed(log):
    """Jobs with the timeout of their kind, their own timeout, and the timeout of the queue."""
    set_kind(log, "00:00:00.9")
    log.enqueue(8, kind="a")
    log.begin().job(8, "processing", lease=1, lease_timeout="00:00:00.9").fact("claim", 8, 1).commit()
    log.enqueue(9, kind="a", heartbeat_timeout="00:00:02")
    log.begin().job(9, "processing", lease=2, lease_timeout="00:00:02").fact("claim", 9, 2).commit()
    set_kind(log, None, deleted=True)
    log.enqueue(10, kind="a")
    log.claim(10, 3)
    for job, lease in (8, 1), (9, 2), (10, 3):
        log.complete(job, lease)


def kind_ignored(log):
    set_kind(log, "00:00:00.9")
    log.enqueue(8, kind="a")
    log.run(8, 1)


def kind_kept(log):
    """The claim uses a setting that has been removed."""
    set_kind(log, "00:00:00.9")
    set_kind(log, None, deleted=True)
    log.enqueue(8, kind="a")
    log.begin().job(8, "processing", lease=1, lease_timeout="00:00:00.9").fact("claim", 8, 1).commit()
    log.complete(8, 1)


def limit(log, most, key="", by_kind=False):
    log.begin().write(Limit("q", key, most, by_kind)).fact("limit", client="o0").commit()
    log.say("answered")


def limited(log, most, *jobs, limit_key="", key=None):
    limit(log, most, limit_key)
    for job in jobs:
        log.enqueue(job, concurrency_key=key)


def limited_kind(log, most, *jobs, limit_key="a"):
    limit(log, most, limit_key, by_kind=True)
    for job in jobs:
        log.enqueue(job, kind="a")


def within_the_limit(log):
    limited(log, 1, 8, 9)
    log.run(8, 1)
    log.run(9, 2)


def over_the_limit(log):
    limited(log, 1, 8, 9)
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def slot_not_yet_free(log):
    """The completion has been written but not committed when the next job is claimed."""
    limited(log, 1, 8, 9)
    log.claim(8, 1)
    completion = log.begin().job(8, "completed").fact("complete", 8, 1)
    log.claim(9, 2)
    completion.commit()
    log.complete(9, 2)


def slot_of_its_own(log):
    """A transaction that completes and claims may use the slot at once."""
    limited(log, 1, 8, 9)
    log.claim(8, 1)
    both = log.begin().job(8, "completed").fact("complete", 8, 1)
    both.job(9, "processing", lease=2).fact("claim", 9, 2).commit()
    log.complete(9, 2)


def slot_handed_on(log):
    """While that transaction is open it holds one slot, however it ends, so another slot is free."""
    limited(log, 2, 8, 9, 10)
    log.claim(8, 1)
    both = log.begin().job(8, "completed").fact("complete", 8, 1).job(9, "processing", lease=2).fact("claim", 9, 2)
    log.claim(10, 3, client="w1")
    both.commit()
    log.complete(9, 2)
    log.complete(10, 3, client="w1")


def claimed_side_by_side(log):
    """Neither claim had committed when the other one was written."""
    limited(log, 1, 8, 9)
    one = log.begin().job(8, "processing", lease=1).fact("claim", 8, 1)
    log.claim(9, 2, client="w1")
    one.commit()
    log.complete(8, 1)
    log.complete(9, 2, client="w1")


def over_the_limit_of_a_key(log):
    limited(log, 1, 8, 9, limit_key="*", key="c")
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def over_the_limit_of_a_kind(log):
    limited_kind(log, 1, 8, 9)
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def over_the_limit_of_each_kind(log):
    limited_kind(log, 1, 8, 9, limit_key="*")
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def named_limit(log, most, queues="{q,r}"):
    log.begin().write(NamedLimit("shared", queues, most)).fact("limit", client="o0").commit()
    log.say("answered")
    log.enqueue(8, limits="{shared}")
    log.enqueue(9, queue="r", limits="{other,shared}")


def over_a_named_limit(log):
    named_limit(log, 1)
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def within_a_named_limit(log):
    named_limit(log, 1)
    log.run(8, 1)
    log.run(9, 2)


def named_limit_of_another_queue(log):
    named_limit(log, 1, queues="{q}")
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def two_kinds(log):
    limited_kind(log, 1, 8, limit_key="*")
    log.enqueue(9, kind="b")
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def two_keys(log):
    limited(log, 1, 8, limit_key="*", key="c")
    log.enqueue(9, concurrency_key="d")
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def own_limit_of_a_key(log):
    limited(log, 1, 8, 9, limit_key="*", key="c")
    limit(log, 2, "c")
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def limit_lowered(log):
    """Running jobs continue; the next one has to wait until enough of them have ended."""
    limited(log, 3, 8, 9, 10)
    log.claim(8, 1)
    log.claim(9, 2)
    limit(log, 1)
    log.complete(8, 1)
    log.complete(9, 2)
    log.run(10, 3)


def lowered_limit_ignored(log):
    limited(log, 3, 8, 9, 10)
    log.claim(8, 1)
    log.claim(9, 2)
    limit(log, 1)
    log.complete(8, 1)
    log.claim(10, 3)
    log.complete(9, 2)
    log.complete(10, 3)


def limit_removed(log):
    limited(log, 1, 8, 9)
    log.begin().write(Limit("q"), deleted=True).fact("limit", client="o0").commit()
    log.say("answered")
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def limit_kept_by_the_server(log):
    """The tick also updates the row of the limit, which leaves the limit unchanged."""
    limited(log, 1, 8, 9)
    log.begin().write(Limit("q", "", 1)).commit()
    log.claim(8, 1)
    log.claim(9, 2)
    log.complete(8, 1)
    log.complete(9, 2)


def at_a_rate(log, count, pause):
    for job in range(8, 8 + count):
        log.enqueue(job, queue="rated")
    for job in range(8, 8 + count):
        log.run(job, job)
        log.pass_time(pause)


def within_the_rate(log):
    at_a_rate(log, 40, 0.1)


def over_the_rate(log):
    at_a_rate(log, 40, 0.02)


# Groups

def grouped(log, *jobs, client="p0"):
    for job in jobs:
        log.enqueue(job, "blocked", client=client, group_key="g")


def a_group(log):
    """The second job is unblocked after the first one, which keeps its place while it waits for its retry."""
    grouped(log, 8, 9)
    log.server(8, "pending")
    log.claim(8, 1)
    log.fail(8, 1, "scheduled")
    log.server(8, "pending")
    log.run(8, 2)
    log.server(9, "pending")
    log.run(9, 3)


def a_group_in_one_go(log):
    """The commit that ends the first job unblocks the second one."""
    grouped(log, 8, 9)
    log.server(8, "pending")
    log.claim(8, 1)
    log.begin().job(8, "completed").fact("complete", 8, 1).job(9, "pending").commit()
    log.run(9, 2)


def two_after_one(log):
    """The same with two jobs that follow."""
    grouped(log, 8, 9, 10)
    log.server(8, "pending")
    log.claim(8, 1)
    log.begin().job(8, "completed").fact("complete", 8, 1).job(9, "pending").job(10, "pending").commit()
    log.run(9, 2)
    log.run(10, 3)


def let_go_by_a_worker(log):
    """A worker unblocks a job without having ended the head."""
    grouped(log, 8)
    log.begin().job(8, "pending").fact("complete", 7, 1).commit()
    log.run(8, 2)


def two_of_a_group(log):
    grouped(log, 8, 9)
    log.server(8, "pending")
    log.server(9, "pending")
    log.run(8, 1)
    log.run(9, 2)


def let_go_too_early(log):
    """The completion of the first job has been written but not committed when the second one is unblocked."""
    grouped(log, 8, 9)
    log.server(8, "pending")
    log.claim(8, 1)
    completion = log.begin().job(8, "completed").fact("complete", 8, 1)
    log.server(9, "pending")
    completion.commit()
    log.run(9, 2)


def place_lost(log):
    """A retry unblocks the next job."""
    grouped(log, 8, 9)
    log.server(8, "pending")
    log.claim(8, 1)
    log.fail(8, 1, "scheduled")
    log.server(9, "pending")
    log.run(9, 2)
    log.server(8, "pending")
    log.run(8, 3)


def wrong_order(log):
    grouped(log, 8, 9)
    log.server(9, "pending")
    log.run(9, 1)
    log.server(8, "pending")
    log.run(8, 2)


def late_commit(log):
    """Job 8 commits when 9 is already running, so the transaction that unblocked 9 made no mistake."""
    late = log.begin().job(8, "blocked", group_key="g").fact("enqueue", 8, client="p1")
    grouped(log, 9)
    log.server(9, "pending")
    late.commit()
    log.run(9, 1)
    log.server(8, "pending")
    log.run(8, 2)


def late_commit_forgotten(log):
    """The same, but then 10 runs before 8, which was visible when 9 ended."""
    late = log.begin().job(8, "blocked", group_key="g").fact("enqueue", 8, client="p1")
    grouped(log, 9, 10)
    log.server(9, "pending")
    late.commit()
    log.say("answered", client="p1")
    log.run(9, 1)
    log.server(10, "pending")
    log.run(10, 2)
    log.server(8, "pending")
    log.run(8, 3)


def group_left_waiting(log):
    grouped(log, 8)
    log.pass_time(10)
    log.server(8, "pending")
    log.run(8, 1)


# Halted groups

def halted(log):
    """Job 8 fails and halts its group."""
    for job in (8, 9):
        log.enqueue(job, "blocked", queue="halting", group_key="g")
    log.server(8, "pending")
    log.claim(8, 1)
    log.fail(8, 1)


def halted_and_retried(log):
    halted(log)
    log.begin().job(8, "pending").fact("retry", 8, client="o0").commit()
    log.run(8, 2)
    log.server(9, "pending")
    log.run(9, 3)


def halted_and_skipped(log):
    """The skip moves the job to the dead letter queue, and its commit unblocks the next one."""
    halted(log)
    (log.begin().job(8, "failed").fact("skip", 8, client="o0").job(8, "failed", queue="dead", dead_from="halting").job(9, "pending")
     .commit())
    log.run(9, 2)


def halted_and_cancelled(log):
    halted(log)
    log.begin().job(8, "cancelled").fact("cancel", 8, client="o0").commit()
    log.server(9, "pending")
    log.run(9, 2)


def halt_ignored(log):
    halted(log)
    log.server(9, "pending")
    log.run(9, 2)


def halt_not_begun(log):
    """The failure has not been committed when the next job is unblocked."""
    for job in (8, 9):
        log.enqueue(job, "blocked", queue="halting", group_key="g")
    log.server(8, "pending")
    log.claim(8, 1)
    failure = log.begin().job(8, "failed").attempt(8, 1, "failed").fact("fail", 8, 1)
    log.server(9, "pending")
    failure.commit()
    log.run(9, 2)


def halt_moved_away(log):
    """The failure moves the job to the dead letter queue."""
    log.enqueue(8, "blocked", queue="halting", group_key="g")
    log.server(8, "pending")
    log.claim(8, 1)
    (log.begin().job(8, "failed").attempt(8, 1, "failed").job(8, "failed", queue="dead", dead_from="halting")
     .fact("fail", 8, 1).commit())


# Dependencies

def after_its_dependencies(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[7, 8])
    log.run(8, 1)
    log.server(9, "pending")
    log.run(9, 2)


def met_by_another(log):
    """A later call that finds the job by its unique key adds no dependency to it."""
    log.enqueue(8)
    log.begin().fact("enqueue", 8, client="p1", depends_on=[9]).commit()
    log.enqueue(9)
    log.run(8, 1)
    log.run(9, 2)


def before_its_dependency(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[7, 8])
    log.server(9, "pending")
    log.run(9, 1)
    log.run(8, 2)


def before_the_commit_of_its_dependency(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8])
    log.claim(8, 1)
    completion = log.begin().job(8, "completed").fact("complete", 8, 1)
    log.server(9, "pending")
    completion.commit()
    log.run(9, 2)


def after_a_failure(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8])
    log.claim(8, 1)
    log.fail(8, 1)
    log.server(9, "cancelled")


def anyway(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8], run="run")
    log.claim(8, 1)
    log.fail(8, 1)
    log.server(9, "pending")
    log.run(9, 2)


def failure_ignored(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8])
    log.claim(8, 1)
    log.fail(8, 1)
    log.server(9, "pending")
    log.run(9, 2)


def retry_taken_for_failure(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8])
    log.claim(8, 1)
    log.fail(8, 1, "scheduled")
    log.server(9, "cancelled")
    log.server(8, "pending")
    log.run(8, 2)


def cancelled_although_anyway(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8], run="run")
    log.claim(8, 1)
    log.fail(8, 1)
    log.server(9, "cancelled")


def dependent_left_waiting(log):
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8])
    log.run(8, 1)
    log.pass_time(10)
    log.server(9, "pending")
    log.run(9, 2)


def retried_before_it_was_seen(log):
    """The dependency fails and is retried at once: its dependents wait for its next end."""
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8], run="run")
    log.claim(8, 1)
    log.fail(8, 1)
    log.begin().job(8, "pending").fact("retry", 8, client="o0").commit()
    log.pass_time(10)
    log.run(8, 2)
    log.server(9, "pending")
    log.run(9, 3)


def retried_too_late(log):
    """The same, after ten seconds in which nothing blocked the dependent."""
    log.enqueue(8)
    log.enqueue(9, "blocked", depends_on=[8], run="run")
    log.claim(8, 1)
    log.fail(8, 1)
    log.pass_time(10)
    log.begin().job(8, "pending").fact("retry", 8, client="o0").commit()
    log.run(8, 2)
    log.server(9, "pending")
    log.run(9, 3)


CASES = {
    paused: {"paused"}, paused_while_claiming: set(), resumed: set(), within_the_limit: set(),
    kind_obeyed: set(), kind_ignored: {"kind ignored"}, kind_kept: {"kind ignored"},
    over_the_limit: {"limit exceeded"}, slot_not_yet_free: {"limit exceeded"}, slot_of_its_own: set(),
    slot_handed_on: set(), claimed_side_by_side: {"limit exceeded"}, over_the_limit_of_a_key: {"limit exceeded"},
    over_the_limit_of_a_kind: {"limit exceeded"}, over_the_limit_of_each_kind: {"limit exceeded"}, two_kinds: set(),
    over_a_named_limit: {"limit exceeded"}, within_a_named_limit: set(), named_limit_of_another_queue: set(),
    two_keys: set(), own_limit_of_a_key: set(), limit_lowered: set(), lowered_limit_ignored: {"limit exceeded"},
    limit_removed: set(), limit_kept_by_the_server: {"limit exceeded"},
    within_the_rate: set(), over_the_rate: {"rate exceeded"}, a_group: set(), a_group_in_one_go: set(),
    two_after_one: {"impossible step", "group crowded"}, let_go_by_a_worker: {"impossible step"}, two_of_a_group: {"group crowded"},
    let_go_too_early: {"group crowded"}, place_lost: {"group crowded"}, wrong_order: {"group order"},
    halted_and_retried: set(), halted_and_skipped: set(), halted_and_cancelled: set(), halt_ignored: {"halt ignored"},
    halt_not_begun: {"group crowded"}, halt_moved_away: {"stray letter"}, late_commit: set(), late_commit_forgotten: {"group order"}, group_left_waiting: {"left waiting"},
    after_its_dependencies: set(), met_by_another: set(), before_its_dependency: {"dependency ignored"},
    before_the_commit_of_its_dependency: {"dependency ignored"}, after_a_failure: set(), anyway: set(),
    failure_ignored: {"dependency ignored"}, retry_taken_for_failure: {"dependency ignored"},
    cancelled_although_anyway: {"dependency ignored"}, dependent_left_waiting: {"left waiting"},
    retried_before_it_was_seen: set(), retried_too_late: {"left waiting"},
}
