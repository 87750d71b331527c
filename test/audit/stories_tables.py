"""Stories of edges, batches, saved steps, and schedules as the tables show them: for each law, correct ones and ones that break it."""

from stories import stamp

from jobq.audit.rows import Batch, Edge, SavedStep, Schedule


def dependent(log, on_failure="cancel"):
    """Job 9 depends on job 8. Only the tables say so, not the clients."""
    log.enqueue(8)
    log.begin().job(9, "blocked").write(Edge(9, "depends", 8, on_failure)).fact("enqueue", 9, client="p0").commit()


def edge_respected(log):
    dependent(log)
    log.run(8, 1)
    log.server(9, "pending")
    log.run(9, 2)


def edge_ignored(log):
    dependent(log)
    log.server(9, "pending")
    log.run(8, 1)
    log.run(9, 2)


def edge_ignored_before_the_commit(log):
    dependent(log)
    log.claim(8, 1)
    completion = log.begin().job(8, "completed").fact("complete", 8, 1)
    log.server(9, "pending")
    completion.commit()
    log.run(9, 2)


def edge_to_a_failure(log):
    dependent(log, "run")
    log.claim(8, 1)
    log.fail(8, 1)
    log.server(9, "pending")
    log.run(9, 2)


def edge_to_a_failure_ignored(log):
    dependent(log)
    log.claim(8, 1)
    log.fail(8, 1)
    log.server(9, "pending")
    log.run(9, 2)


def edge_to_a_retried_job(log):
    """The job had ended once, so its dependent may run although the job runs again."""
    dependent(log, "run")
    log.claim(8, 1)
    log.fail(8, 1)
    log.begin().job(8, "pending").fact("retry", 8, client="o0").commit()
    log.server(9, "pending")
    log.run(8, 2)
    log.run(9, 3)


def edge_removed(log):
    dependent(log)
    log.begin().write(Edge(9, "depends", 8), deleted=True).job(9, "pending").commit()
    log.run(9, 2)
    log.run(8, 1)


def edge_added_too_late(log):
    """Plain SQL adds a dependency while another transaction unblocks the job."""
    log.enqueue(8)
    log.enqueue(9)
    log.begin().write(Edge(9, "depends", 8, "cancel")).commit()
    log.run(8, 1)
    log.run(9, 2)


def ended(log, when="1"):
    log.begin().write(Batch(50, stamp(1e9), stamp(1e9 + int(when)))).commit()


def members(log, sealed=True):
    for job in (8, 9):
        log.enqueue(job, batch_id=50)
    if sealed:
        log.begin().write(Batch(50, stamp(1e9))).commit()


def batch_ends(log):
    members(log)
    log.run(8, 1)
    log.claim(9, 2)
    log.fail(9, 2)
    ended(log)
    log.begin().job(9, "pending").fact("retry", 9, client="o0").commit()
    log.run(9, 3)


def batch_ends_early(log):
    members(log)
    log.run(8, 1)
    log.claim(9, 2)
    ended(log)
    log.complete(9, 2)


def batch_ends_before_a_commit(log):
    members(log)
    log.run(8, 1)
    log.claim(9, 2)
    completion = log.begin().job(9, "completed").fact("complete", 9, 2)
    ended(log)
    completion.commit()


def batch_ends_twice(log):
    members(log)
    log.run(8, 1)
    log.run(9, 2)
    ended(log)
    ended(log, "2")


def batch_ends_open(log):
    members(log, sealed=False)
    log.run(8, 1)
    log.run(9, 2)
    log.begin().write(Batch(50, None, stamp(1e9))).commit()


def joined_too_late(log):
    members(log)
    log.enqueue(10, batch_id=50)
    for job in (8, 9, 10):
        log.run(job, job)


def save(log, job, name, state="done", inserted=True):
    log.begin().write(SavedStep(job, name, state), inserted=inserted).commit()


def steps(log):
    log.enqueue(8)
    log.claim(8, 1)
    save(log, 8, "a")
    save(log, 8, "b", "waiting")
    save(log, 8, "b", "done", inserted=False)
    log.begin().write(SavedStep(8, "b"), deleted=True).commit()
    save(log, 8, "b")
    log.complete(8, 1)


def step_changed(log):
    log.enqueue(8)
    log.claim(8, 1)
    save(log, 8, "a")
    save(log, 8, "a", "timeout", inserted=False)
    log.complete(8, 1)


def step_doubled(log):
    log.enqueue(8)
    log.claim(8, 1)
    save(log, 8, "a")
    save(log, 8, "a")
    log.complete(8, 1)


def step_of_a_zombie(log):
    log.enqueue(8)
    log.claim(8, 1)
    log.begin().job(8, "pending").attempt(8, 1, "released").fact("release", 8, 1).commit()
    save(log, 8, "a")
    log.run(8, 2)


def fires(log, last_run, last_job):
    log.begin().write(Schedule("s", last_run, last_job)).commit()


def schedule_fires(log):
    fires(log, None, None)
    fires(log, "1", 8)
    fires(log, "2", 9)
    fires(log, "2", 9)


def schedule_fires_twice(log):
    fires(log, "1", 8)
    fires(log, "1", 9)


CASES = {
    edge_respected: set(), edge_ignored: {"dependency ignored"}, edge_ignored_before_the_commit: {"dependency ignored"},
    edge_to_a_failure: set(), edge_to_a_failure_ignored: {"dependency ignored"}, edge_to_a_retried_job: set(),
    edge_removed: set(), edge_added_too_late: {"dependency ignored"},
    batch_ends: set(), batch_ends_early: {"batch"}, batch_ends_before_a_commit: {"batch"}, batch_ends_twice: {"batch"},
    batch_ends_open: {"batch"}, joined_too_late: {"batch"},
    steps: set(), step_changed: {"step repeated"}, step_doubled: {"step repeated"}, step_of_a_zombie: {"step repeated"},
    schedule_fires: set(), schedule_fires_twice: {"schedule fired twice"},
}
