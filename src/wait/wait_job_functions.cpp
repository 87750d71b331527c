// The SQL procedure jobq_wait_job, which sleeps until a job has finished. wait/sleep.h explains why it is a procedure.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/latch.h"
#include "identity/identity.h"
#include "queues/scope.h"
#include "row/current_status.h"
#include "shmem/memory.h"
#include "shmem/wall_clock.h"
#include "wait/job_waiters.h"
#include "wait/sleep.h"

extern "C" {
#include "access/xlog.h"
}

namespace jobq {

namespace {

constexpr const char kName[] = "jobq_wait_job";

// Maximum time between two reads of the job. This limit is needed because some changes, such as the deletion of a job
// while triggers are disabled, notify no session.
constexpr core::Micros kPoll = core::kSecond;
// Time between the first two reads of the job when only polling detects that the job has finished. The time doubles
// after each further read, up to kPoll.
constexpr core::Micros kFirstPoll = 10000;

// The state of one call to jobq_wait_job().
struct Wait {
    Oid user;
    Oid procedure;
    int64 job;
    core::Micros deadline;
    core::Micros last_look;
    core::Micros poll;
};

// Returns whether commits do not wake this session. Commits wake no session if the library is not preloaded, or on a
// standby, where commits are only replayed.
bool commits_do_not_wake() { return !shared_memory_ready() || RecoveryInProgress(); }

// Returns whether the job has finished or does not exist.
bool has_finished(int64 job) {
    core::JobStatus status;
    return !current_status(job, &status) || core::is_finished(status);
}

// Reads the job in a separate transaction. Returns whether the wait is over.
bool look(Wait *wait) {
    bool finished = false;
    forget_job_signal();
    run_as_owner(wait->procedure, kName, [&] {
        finished = !job_is_in_scope(scope_of(wait->user, wait->procedure), wait->job) || has_finished(wait->job);
        // If the database is a copy that has not been adopted, raises an error, because the job would never finish
        // there.
        if (!finished) require_own_jobs();
    });
    wait->last_look = monotonic_now();
    return finished;
}

void plan_next_look(Wait *wait) {
    wait->poll = commits_do_not_wake() ? Min(Max(wait->poll * 2, kFirstPoll), kPoll) : kPoll;
}

// Sleeps until the job might have finished, the next read is due, or the timeout ends.
void sleep(const Wait &wait) {
    const core::Micros until = Min(wait.deadline, wait.last_look + wait.poll);
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        const core::Micros now = monotonic_now();
        if (job_waiter_signalled() || now >= until) return;
        wait_for_latch(until - now, WaitEvent::WaitJob);
    }
}

void wait_for_end(Wait *wait) {
    // The commit releases the caller's snapshot.
    SPI_commit();
    enter_job_waiters(wait->job);
    while (!look(wait) && wait->last_look < wait->deadline) {
        plan_next_look(wait);
        sleep(*wait);
        check_client();
    }
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_wait_job);
PGDLLEXPORT Datum jobq_wait_job(PG_FUNCTION_ARGS) {
    require_autocommit(fcinfo, kName);
    // From here on, memory is allocated in the SPI context, which outlives the transactions.
    SPI_connect_ext(SPI_OPT_NONATOMIC);
    Wait wait = {};
    wait.user = GetUserId();
    wait.procedure = fcinfo->flinfo->fn_oid;
    wait.job = require_int64(fcinfo, 0, "job_id");
    require(fcinfo, 1, "timeout");
    const core::Micros timeout = check_span(PG_GETARG_INTERVAL_P(1), "timeout", Zero::Allowed);
    wait.deadline = core::saturating_add(monotonic_now(), timeout);
    PG_TRY();
    { wait_for_end(&wait); }
    PG_CATCH();
    {
        leave_job_waiters();
        PG_RE_THROW();
    }
    PG_END_TRY();
    leave_job_waiters();
    SPI_finish();
    PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace jobq
