// See step.h. An error aborts the transaction of the step and is recorded. The step is retried later.
#include "compat/pg.h"

#include "compat/transaction.h"
#include "core/launch.h"
#include "handlers/supervise.h"
#include "identity/identity.h"
#include "log/transaction_log.h"
#include "metrics/counters.h"
#include "processes/step.h"
#include "shmem/wall_clock.h"

extern "C" {
#include "common/hashfn.h"
#include "pgstat.h"
#include "utils/backend_status.h"
#include "utils/timeout.h"
}

namespace jobq {

namespace {

// Maximum duration of a batch. The duration is limited because the snapshot of a batch prevents vacuum from removing
// dead tuples anywhere in the database.
constexpr int kBatchTimeoutMs = 300000;
// Maximum delay before a failed duty is retried. It is short so that the duty resumes soon after the cause of the error
// is gone.
constexpr core::Micros kMaxStepBackoff = 5 * core::kSecond;
// Minimum pause between two repairs, as a multiple of the duration of the last repair. A repair searches for lanes that
// are missing from the directory. The search takes longer if there are more lanes, and hardly ever finds a missing
// lane.
constexpr int kRepairRest = 50;
// An error that was caused by a lock is logged only if the step has failed at least this many times in a row. Fewer
// failures are normal during DDL.
constexpr int kPassingFailures = 5;

const char *step_name(int index) {
    if (index == kPlanStep) return "planning";
    return index == kExecutorsStep ? "executors" : core::kDuties[index].name;
}

const char *step_kind(int index) { return index < kDutyCount ? "duty" : "step"; }

// Returns whether the step changes jobs. Such a step must be skipped while jobs must not be changed.
bool changes_jobs(int index) { return index < kDutyCount ? core::kDuties[index].changes_jobs : index != kPlanStep; }

void add_step_context(void *step) {
    const int index = static_cast<Step *>(step)->index;
    errcontext("%s, %s %s", MyBgworkerEntry->bgw_name, step_kind(index), step_name(index));
}

void work(Step *step) {
    step->outcome = StepOutcome::Done;
    if (step->index == kPlanStep) {
        step->deadline = next_deadline(step->now, step->grace);
        step->in_use = database_in_use();
    } else if (is_recount(step->index) && !step->apart && recount_takes_long()) {
        step->too_long = true;
    } else if (changes_jobs(step->index) && (step->rest = rest_of_duties()) != Rest::None) {
        step->outcome = StepOutcome::Rests;
    } else if (step->index == kExecutorsStep) {
        supervise_executors(step->now);
    } else {
        // Checks deferred constraints immediately, so that the duty can skip a job that violates a constraint.
        check_deferred_constraints();
        // Leaves it to the duty "unblock" to promote the next job of each group, because "unblock" can skip a job that
        // cannot be changed.
        leave_next_heads();
        const auto duty = static_cast<Duty>(step->index);
        step->duty = run_duty(duty, step->now, step->grace);
        step->fails_still = step->failed_before && step->duty.failed == 0 && leaves_out_still(duty);
    }
}

// Runs the step as the owner of the extension, because the triggers and functions of other roles must not run with the
// superuser privileges of this process. Afterward, undoes SET commands that these triggers and functions have executed.
void work_as_owner(Step *step) {
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    SetUserIdAndSecContext(step->extension.owner,
                           context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
    const int nest_level = NewGUCNestLevel();
    work(step);
    AtEOXact_GUC(false, nest_level);
    SetUserIdAndSecContext(user, context);
}

void run_transaction(Step *step) {
    ErrorContextCallback context;
    context.callback = add_step_context;
    context.arg = step;
    context.previous = error_context_stack;
    error_context_stack = &context;

    pgstat_report_activity(STATE_RUNNING, step_name(step->index));
    SetCurrentStatementStartTimestamp();
    StartTransactionCommand();
    enable_timeout_after(STATEMENT_TIMEOUT, kBatchTimeoutMs);
    step->extension = lock_extension();
    if (OidIsValid(step->extension.oid)) {
        PushActiveSnapshot(GetTransactionSnapshot());
        work_as_owner(step);
        PopActiveSnapshot();
    } else {
        step->outcome = StepOutcome::NoExtension;
    }
    disable_timeout(STATEMENT_TIMEOUT, false);
    CommitTransactionCommand();

    error_context_stack = context.previous;
}

// Returns whether the error was caused by a lock that another transaction held. Such a lock is usually released soon,
// so the duty is retried soon.
bool is_passing(int sqlstate) {
    return sqlstate == ERRCODE_LOCK_NOT_AVAILABLE || sqlstate == ERRCODE_T_R_DEADLOCK_DETECTED ||
           sqlstate == ERRCODE_T_R_SERIALIZATION_FAILURE;
}

uint32 fingerprint_of(const char *message) {
    return hash_bytes(reinterpret_cast<const unsigned char *>(message), static_cast<int>(strlen(message))) | 1;
}

// Shows an error in jobq.background_workers. The caller must hold the lock of the database states.
void show_error(DatabaseState *db, int index, const char *message, TimestampTz now) {
    const char *name = step_name(index);
    const int room = kErrorBytes - 1 - static_cast<int>(strlen(name) + strlen(": "));
    // Truncates the message at a character boundary.
    const int length = pg_mbcliplen(message, static_cast<int>(strlen(message)), room);
    snprintf(db->last_error, sizeof(db->last_error), "%s: %.*s", name, length, message);
    db->last_error_at = now;
    db->last_error_step = index;
    db->last_error_over_at = 0;
}

// Records the error that is being handled, and aborts its transaction. Logs the error unless it is the same as the last
// logged error.
void record_error(DatabaseState *db, const Step *step, MemoryContext memory) {
    MemoryContextSwitchTo(memory);
    const ErrorData *error = CopyErrorData();
    const char *message = error->message != nullptr ? error->message : "unknown error";
    const uint32 fingerprint = fingerprint_of(message);
    StepReport *report = &db->steps[step->index];
    const bool passing = is_passing(error->sqlerrcode);
    const bool to_log = !passing || report->failures + 1 >= kPassingFailures;
    if (to_log && report->logged != fingerprint) EmitErrorReport();
    // Aborts the transaction to release all LWLocks before the code below acquires one.
    abort_after_error();

    const TimestampTz now = GetCurrentTimestamp();
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    if (to_log) report->logged = fingerprint;
    report->failures++;
    report->not_before = now + (passing ? core::kSecond : Min(core::launch_backoff(report->failures), kMaxStepBackoff));
    show_error(db, step->index, message, now);
    LWLockRelease(database_states_lock());
}

void record_success(DatabaseState *db, const Step *step) {
    StepReport *report = &db->steps[step->index];
    const uint32 logged = report->logged;
    const TimestampTz now = GetCurrentTimestamp();
    const bool left_out = step->duty.failed > 0;
    const uint32 fingerprint = left_out ? fingerprint_of(step->duty.error) : step->fails_still ? logged : 0;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    const bool rested = db->rests != Rest::None && changes_jobs(step->index);
    if (rested) db->rests = Rest::None;
    report->failures = 0;
    report->not_before =
        step->index == static_cast<int>(Duty::Repair) ? now + kRepairRest * Max(now - step->now, 0) : 0;
    report->logged = fingerprint;
    report->done += step->duty.done;
    if (left_out)
        show_error(db, step->index, step->duty.error, now);
    else if (!step->fails_still && !step->too_long)
        show_end_of_error(db, step->index, now);
    LWLockRelease(database_states_lock());
    if (rested) {
        // Marks the counters as unknown, because they might not include the jobs that a restore has added.
        forget_counters(MyDatabaseId);
        ereport(LOG, (errmsg("%s has resumed", MyBgworkerEntry->bgw_name)));
    }
    if (left_out && logged != fingerprint)
        ereport(WARNING, (errmsg_plural("%s: duty %s skipped " INT64_FORMAT " row that could not be changed: %s",
                                        "%s: duty %s skipped " INT64_FORMAT " rows that could not be changed: %s",
                                        static_cast<unsigned long>(step->duty.failed), MyBgworkerEntry->bgw_name,
                                        step_name(step->index), step->duty.failed, step->duty.error)));
    if (logged != 0 && fingerprint == 0)
        ereport(LOG, (errmsg("%s recovered from an error in %s %s", MyBgworkerEntry->bgw_name, step_kind(step->index),
                             step_name(step->index))));
}

// Records that the duties must not change jobs now. During a restore, the step is retried after a second, because the
// end of a restore sends no notification. In a copy of a database, the step is not retried, because the adoption of the
// copy requests a round.
void rest(DatabaseState *db, const Step *step) {
    const Rest why = step->rest;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    const bool begins = db->rests != why;
    db->rests = why;
    if (why == Rest::Restore) db->steps[step->index].not_before = GetCurrentTimestamp() + core::kSecond;
    LWLockRelease(database_states_lock());
    if (begins && why == Rest::Copy)
        ereport(WARNING, (errmsg("%s does not run jobs because the database is a copy", MyBgworkerEntry->bgw_name),
                          errhint("%s", adoption_hint())));
    if (begins && why == Rest::Restore)
        ereport(LOG,
                (errmsg("%s pauses while a dump is being restored", MyBgworkerEntry->bgw_name),
                 errdetail("It resumes when the restoring session has disconnected or has been idle for a minute.")));
}

}  // namespace

void show_end_of_error(DatabaseState *db, int index, TimestampTz now) {
    if (db->last_error_at != 0 && db->last_error_over_at == 0 && db->last_error_step == index)
        db->last_error_over_at = now;
}

bool is_recount(int index) { return index == static_cast<int>(Duty::Reconcile); }

void prepare_step(Step *step, int index, bool apart) {
    step->index = index;
    step->apart = apart;
    // Reads the current time first, and then the start of the grace period. In the opposite order, a grace period could
    // begin between the two reads, and the step would then compare leases with the new time but ignore the new grace
    // period.
    step->now = checked_now();
    step->grace = grace_start();
}

void run_step(DatabaseState *db, Step *step, MemoryContext memory) {
    step->outcome = StepOutcome::Failed;
    step->too_long = false;
    step->duty = {};
    step->failed_before = db->steps[step->index].logged != 0;
    step->fails_still = false;
    PG_TRY();
    { run_transaction(step); }
    PG_CATCH();
    {
        HOLD_INTERRUPTS();
        disable_all_timeouts(false);
        QueryCancelPending = false;
        record_error(db, step, memory);
        FlushErrorState();
        step->outcome = StepOutcome::Failed;
        // If the step or its commit has failed, discards the results of the duty.
        step->duty = {};
        step->too_long = false;
        RESUME_INTERRUPTS();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(memory);
    if (step->outcome == StepOutcome::Done) record_success(db, step);
    if (step->outcome == StepOutcome::Rests) rest(db, step);
}

}  // namespace jobq
