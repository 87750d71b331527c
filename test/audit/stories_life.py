"""Stories of jobs, leases, keys, and queues: for each law, correct ones and ones that break it."""

import json

from stories import stamp

# The life of a job

def proper(log):
    pass


def long_life(log):
    """Scheduled, promoted, failed, retried, lost, released, snoozed, cancelled on request, retried manually, completed, deleted."""
    log.enqueue(8, "scheduled")
    log.server(8, "pending")
    log.claim(8, 1)
    log.fail(8, 1, "scheduled")
    log.server(8, "pending")
    log.claim(8, 2)
    log.pass_time(1.1)
    log.begin().job(8, "pending").attempt(8, 2, "lost").commit()
    log.say("refused", 8, 2, client="w0")
    log.claim(8, 3)
    log.begin().job(8, "pending").attempt(8, 3, "released").fact("release", 8, 3).commit()
    log.claim(8, 4)
    log.begin().job(8, "scheduled").attempt(8, 4, "snoozed").fact("snooze", 8, 4).commit()
    log.begin().job(8, "pending").fact("reschedule", 8).commit()
    log.claim(8, 5)
    log.begin().job(8, "processing", cancel_requested_at=stamp(log.time)).fact("cancel", 8, client="o0").commit()
    log.begin().job(8, "processing", last_heartbeat=stamp(log.time)).fact("asked", 8, 5).commit()
    log.begin().job(8, "cancelled").attempt(8, 5, "cancelled").fact("release", 8, 5).commit()
    log.begin().job(8, "pending", cancel_requested_at=None).fact("retry", 8, client="o0").commit()
    log.run(8, 6)
    log.begin().delete(8).fact("delete", 8, client="o0").commit()


def not_kept(log):
    """In a queue that keeps nothing, the completion deletes the job."""
    log.enqueue(8)
    log.claim(8, 1)
    log.begin().delete(8).fact("complete", 8, 1).commit()


def written_down_later(log):
    """A claim that is a transaction of its own."""
    log.enqueue(8)
    log.server(8, "processing", lease=1)
    log.say("claimed", 8, 1, client="w0")
    log.complete(8, 1)


def taken_back(log):
    """An enqueue that finally finds that its key is taken."""
    log.begin().job(8, "pending").delete(8).fact("met", 7, client="p0").commit()


def taken_back_and_told(log):
    log.begin().job(8, "pending").delete(8).fact("enqueue", 8, client="p0").commit()


def resurrected(log):
    log.server(7, "pending")
    log.run(7, 101)


def ran_from_blocked(log):
    log.enqueue(8, "blocked")
    log.run(8, 1)


def cancelled_by_nobody(log):
    log.enqueue(8)
    log.server(8, "cancelled")


def kept_its_lease(log):
    log.begin().job(7, "completed", lease=100).fact("change", 7).commit()


def no_job(log):
    log.say("enqueue", 8, client="p0")


def vanished(log):
    log.enqueue(8)
    log.begin().delete(8).commit()


def from_nowhere(log):
    log.begin().job(8, "pending").fact("enqueue", 9).commit()


def forgotten(log):
    log.enqueue(8)


def blocked_for_ever(log):
    log.enqueue(8, "blocked")


# Leases

def given_while_held(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.claim(8, 2, client="w1")
    log.complete(8, 2, client="w1")


def same_lease_again(log):
    log.enqueue(8)
    log.run(8, 100)


def told_twice(log):
    log.say("claimed", 7, 100, client="w1")


def claim_of_nobody(log):
    log.enqueue(8)
    log.server(8, "processing", lease=1)
    log.complete(8, 1)


def lease_from_nowhere(log):
    log.say("claim", 7, 666, client="w1")


def completed_by_another(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.complete(8, 2)


def completed_by_nobody(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.server(8, "completed")


def doubled(log):
    log.say("complete", 7, 100, client="w0")


def heartbeat_of_a_zombie(log):
    log.say("heartbeat", 7, 100, client="w0")


def refused_to_the_holder(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.say("refused", 8, 1, client="w0")
    log.complete(8, 1)


def lost_without_trace(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.pass_time(1.1)
    log.server(8, "pending")
    log.run(8, 2)


def trace_without_loss(log):
    log.begin().attempt(7, 100, "lost").commit()


def released_as_lost(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.pass_time(1.1)
    log.begin().job(8, "pending").attempt(8, 1, "lost").fact("release", 8, 1).commit()
    log.run(8, 2)


def cancelled_as_failed(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.begin().job(8, "processing", cancel_requested_at=stamp(log.time)).fact("cancel", 8, client="o0").commit()
    log.begin().job(8, "cancelled").attempt(8, 1, "failed").fact("fail", 8, 1).commit()


def robbed(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.begin().job(8, "pending").attempt(8, 1, "lost").commit()
    log.run(8, 2)


def never_rescued(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.pass_time(10)
    log.complete(8, 1)


def held(log, queue="q", wanted_after=0.0, **fields):
    """The worker sends heartbeats all the time."""
    log.enqueue(8, queue=queue)
    log.claim(8, 1)
    log.begin().job(8, "processing", **fields).fact("cancel", 8, client="o0").commit()
    for _ in range(10):
        log.pass_time(1)
        log.begin().job(8, "processing", last_heartbeat=stamp(log.time)).fact("heartbeat", 8, 1).commit()
    log.complete(8, 1)


def held_for_long(log):
    held(log)


def ran_too_long(log):
    held(log, max_runtime="00:00:02")


def ran_too_long_for_its_queue(log):
    held(log, queue="hasty")


def deaf(log):
    held(log, cancel_requested_at=stamp(log.time))


# Expiry

def expiring(log, after=5.0):
    log.enqueue(8, expires_at=stamp(log.time + after))


def expired_in_time(log):
    expiring(log)
    log.pass_time(6)
    log.begin().job(8, "cancelled", error="expired").commit()


def expired_too_early(log):
    expiring(log)
    log.begin().job(8, "cancelled", error="expired").commit()


def claimed_in_time(log):
    expiring(log)
    log.run(8, 1)


def claimed_too_late(log):
    expiring(log)
    log.pass_time(6)
    log.run(8, 1)


def expired_after_a_claim(log):
    expiring(log)
    log.claim(8, 1)
    log.begin().job(8, "pending").attempt(8, 1, "released").fact("release", 8, 1).commit()
    log.pass_time(6)
    log.begin().job(8, "cancelled", error="expired").commit()


# Batches

def sealed(log, *jobs):
    log.begin().fact("batch", 50).commit()
    for job in jobs:
        log.enqueue(job, batch_id=50)
    log.say("seal", 50, client="p0")


def call_back(log, job, event, batch=50):
    log.server(job, "pending", metadata=json.dumps({"batch": batch, "batch_event": event}))
    log.run(job, job + 1000)


def batch_succeeds(log):
    sealed(log, 8)
    log.run(8, 1)
    call_back(log, 9, "complete")
    call_back(log, 10, "success")


def batch_fails(log):
    sealed(log, 8, 9)
    log.run(8, 1)
    log.begin().delete(9).fact("delete", 9).commit()
    call_back(log, 10, "complete")
    call_back(log, 11, "failure")


def callback_missing(log):
    sealed(log, 8)
    log.run(8, 1)
    call_back(log, 9, "complete")


def callback_twice(log):
    batch_succeeds(log)
    call_back(log, 11, "success")


def callback_too_early(log):
    sealed(log, 8)
    call_back(log, 9, "complete")
    call_back(log, 10, "success")
    log.run(8, 1)


def callback_of_open_batch(log):
    log.enqueue(8, batch_id=50)
    log.run(8, 1)
    call_back(log, 9, "complete")


def wrong_callback(log):
    sealed(log, 8)
    log.claim(8, 1)
    log.fail(8, 1)
    call_back(log, 9, "complete")
    call_back(log, 10, "success")


# Unique keys

def keyed(log, job, **fields):
    log.enqueue(job, unique_key="k", holds_key=True, **fields)


def one_after_the_other(log):
    keyed(log, 8)
    log.claim(8, 1)
    log.begin().job(8, "completed", holds_key=None).fact("complete", 8, 1).commit()
    keyed(log, 9)
    log.run(9, 2)


def handed_over(log):
    """`replace` takes the key from a running job and gives it to a new job, in one transaction."""
    keyed(log, 8)
    log.claim(8, 1)
    swap = log.begin().job(8, "processing", holds_key=None)
    swap.job(9, "pending", unique_key="k", holds_key=True).fact("enqueue", 9, client="p0").commit()
    log.complete(8, 1)
    log.run(9, 2)


def key_doubled(log):
    keyed(log, 8)
    keyed(log, 9)
    log.run(8, 1)
    log.run(9, 2)


def key_not_taken(log):
    log.enqueue(8, unique_key="k")
    log.run(8, 1)


# Full queues and dead letters

def full(log, count, status="pending"):
    for job in range(8, 8 + count):
        log.enqueue(job, status, queue="full")
    log.say("answered", client="p0")


def full_queue(log):
    full(log, 2)
    log.run(8, 1)
    log.enqueue(10, queue="full")
    log.run(9, 2)
    log.run(10, 3)


def at_the_same_moment(log):
    """A call need not see what was uncommitted when it began, or what had not yet been acknowledged to its client."""
    full(log, 1)
    one = log.begin().job(10, "pending", queue="full").fact("enqueue", 10, client="p1")
    log.enqueue(11, queue="full", client="p2")
    one.commit()
    for job in (8, 10, 11):
        log.run(job, job)


def dropped_for_another(log):
    full(log, 2)
    log.begin().job(8, "cancelled").job(10, "pending", queue="full").fact("enqueue", 10, client="p1").commit()
    log.run(9, 1)
    log.run(10, 2)


def too_deep(log):
    full(log, 3)
    for job in (8, 9, 10):
        log.run(job, job)


def too_deep_with_delayed_ones(log):
    full(log, 2, "scheduled")
    log.enqueue(10, queue="full", client="p1")
    log.server(8, "pending")
    log.server(9, "pending")
    for job in (8, 9, 10):
        log.run(job, job)


def dead_letter(log):
    log.enqueue(8, queue="dying")
    log.claim(8, 1)
    (log.begin().job(8, "failed").attempt(8, 1, "failed").job(8, "failed", queue="dead", dead_from="dying")
     .fact("fail", 8, 1).commit())
    log.begin().job(8, "pending", queue="dying", dead_from=None).fact("redrive", client="o0").commit()
    log.run(8, 2)


def stays_where_it_died(log):
    log.enqueue(8, queue="dying")
    log.claim(8, 1)
    log.fail(8, 1)


def runs_in_the_wrong_queue(log):
    dead_letter(log)
    log.enqueue(9, queue="dead", dead_from="dying")
    log.run(9, 3)


def sent_to_another_home(log):
    log.enqueue(8, queue="dying")
    log.claim(8, 1)
    (log.begin().job(8, "failed").attempt(8, 1, "failed").job(8, "failed", queue="dead", dead_from="dying")
     .fact("fail", 8, 1).commit())
    log.begin().job(8, "pending", queue="q", dead_from=None).fact("redrive", client="o0").commit()
    log.run(8, 2)


def overtake(log, first, count, pause=1.0, **fields):
    """Job 8 waits while later jobs arrive and are claimed."""
    log.enqueue(8, **first)
    for job in range(9, 9 + count):
        log.enqueue(job, run_at=stamp(log.time), **fields)
        log.run(job, job)
        log.pass_time(pause)
    log.run(8, 8)


def overtaken(log):
    overtake(log, {}, 30)


def overtaken_for_a_moment(log):
    overtake(log, {}, 30, pause=0.01)


def overtaken_by_more_urgent_ones(log):
    overtake(log, {}, 30, priority=-1)


def overtaken_at_last_by_what_it_has_outgrown(log):
    """Each second is worth one step of priority: after ten seconds the other jobs must not go first anymore."""
    overtake(log, {"queue": "aged", "priority": 10}, 40, queue="aged")


def overtaken_while_young(log):
    overtake(log, {"queue": "aged", "priority": 50}, 40, queue="aged")


def overtaken_within_its_key(log):
    overtake(log, {"queue": "fair"}, 30, queue="fair")


def take_turns(log, keys, pause=1.0):
    """Job 8 of key a waits while jobs of these keys arrive and are claimed."""
    log.enqueue(8, queue="fair", concurrency_key="a", priority=9)
    for job, key in enumerate(keys, 9):
        log.enqueue(job, queue="fair", concurrency_key=key)
        log.run(job, job)
        log.pass_time(pause)
    log.run(8, 8)


def turns_of_many(log):
    """However many keys there are, each may have one job before key a has one."""
    take_turns(log, [f"k{number}" for number in range(50)])


def turn_about(log):
    """The key has been served; job 8 is its last job by priority."""
    take_turns(log, ["b", "a"] * 30)


def turns_lost_now_and_then(log):
    """Claims that were rolled back have served key a, three times in a row."""
    take_turns(log, ["b", "a"] * 30 + ["b"] * 4)


def nobody_waited(log):
    """A key may have several jobs in a row while no other key has any."""
    for job in range(8, 48):
        log.enqueue(job, queue="fair", concurrency_key="b")
        log.run(job, job)
        log.pass_time(1)


def turns_skipped(log):
    take_turns(log, ["b"] * 30)


def turns_skipped_for_two(log):
    take_turns(log, ["b", "c"] * 30)


def turns_skipped_for_those_without_a_key(log):
    take_turns(log, [None] * 30)


CASES = {
    proper: set(), long_life: set(), not_kept: set(), written_down_later: set(), taken_back: set(),
    taken_back_and_told: {"lost"}, resurrected: {"impossible step"}, ran_from_blocked: {"impossible step"},
    cancelled_by_nobody: {"impossible step"}, kept_its_lease: {"impossible step"}, no_job: {"lost"},
    vanished: {"lost"}, from_nowhere: {"phantom", "lost"}, forgotten: {"stuck"}, blocked_for_ever: {"stuck"},
    given_while_held: {"lease issued twice"}, same_lease_again: {"lease issued twice"},
    told_twice: {"lease issued twice"}, claim_of_nobody: {"unexplained lease"},
    lease_from_nowhere: {"unexplained lease"}, completed_by_another: {"stale lease accepted"},
    completed_by_nobody: {"impossible step", "stale lease accepted"}, doubled: {"stale lease accepted"},
    heartbeat_of_a_zombie: {"stale lease accepted"}, refused_to_the_holder: {"false answer"},
    lost_without_trace: {"unexplained lease"}, trace_without_loss: {"unexplained lease"},
    released_as_lost: {"unexplained lease"}, cancelled_as_failed: {"unexplained lease"}, robbed: {"robbed"}, never_rescued: {"overdue"}, held_for_long: set(),
    expired_in_time: set(), expired_too_early: {"expiry"}, claimed_in_time: set(), claimed_too_late: {"expiry"}, expired_after_a_claim: {"expiry"},
    batch_succeeds: set(), batch_fails: set(), callback_missing: {"batch"}, callback_twice: {"batch"}, callback_too_early: {"batch"},
    callback_of_open_batch: {"batch"}, wrong_callback: {"batch"},
    ran_too_long: {"overdue"}, ran_too_long_for_its_queue: {"overdue"}, deaf: {"overdue"}, one_after_the_other: set(),
    handed_over: set(), key_doubled: {"key doubled"}, key_not_taken: {"key doubled"}, full_queue: set(),
    at_the_same_moment: set(), dropped_for_another: set(), too_deep: {"too deep"},
    too_deep_with_delayed_ones: {"too deep"}, dead_letter: set(), stays_where_it_died: {"stray letter"},
    runs_in_the_wrong_queue: {"stray letter"}, sent_to_another_home: {"stray letter"},
    overtaken: {"passed over"}, overtaken_for_a_moment: set(), overtaken_by_more_urgent_ones: set(),
    overtaken_at_last_by_what_it_has_outgrown: {"passed over"}, overtaken_while_young: set(),
    overtaken_within_its_key: {"passed over"}, turns_of_many: set(), turn_about: set(), turns_lost_now_and_then: set(),
    nobody_waited: set(), turns_skipped: {"turns skipped"}, turns_skipped_for_two: {"turns skipped"},
    turns_skipped_for_those_without_a_key: {"turns skipped"},
}
