// A worker's round: see round.h. An error in one step ends that step's transaction, is recorded, and makes that step
// back off; the other steps go on.
#include "compat/pg.h"

#include "bgw/extension.h"
#include "bgw/launch_policy.h"
#include "bgw/notify.h"
#include "bgw/recount.h"
#include "bgw/round.h"
#include "bgw/supervise.h"
#include "compat/settings.h"
#include "duties/tick.h"
#include "edges/awaited_jobs.h"
#include "groups/unblock.h"
#include "groups/unblocked_list.h"
#include "identity/identity.h"
#include "job/transaction_log.h"
#include "metrics/totals.h"
#include "shmem/executors.h"
#include "shmem/wall_clock.h"
#include "stats/counters.h"
#include "table/attached.h"
#include "wait/prepared.h"

extern "C" {
#include "commands/dbcommands.h"
#include "common/hashfn.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/backend_status.h"
#include "utils/timeout.h"
}

namespace jobq {

namespace {

// A batch that takes longer is stopped: its snapshot would hold back vacuum in the whole database.
constexpr int kBatchTimeoutMs = 300000;
// So many batches of each duty before the next round is planned and other databases may have their turn.
constexpr int kPassesPerRound = 10;
// A duty that fails is tried again at least so often: what it is there for must not wait much longer than its error.
constexpr core::Micros kMaxStepBackoff = 5 * core::kSecond;
// The search for lanes that the directory lacks costs by the number of lanes, for what hardly ever happens: it rests so
// many times as long as it took.
constexpr int kRepairRest = 50;
// How often a copy is visited that nobody has adopted: somebody may have changed jobq.identity by hand.
constexpr core::Micros kCopyInterval = core::kMinute;
// Rounds keep this distance, so that jobs that become due one after the other are promoted together.
constexpr core::Micros kRoundGap = 10000;

// So are looks after executors, each of which a commit may call for.
constexpr core::Micros kSupervisionGap = 5000;

// A lock in the way is worth a line in the log only when it stays: DDL takes its time.
constexpr int kPassingFailures = 5;

enum class Outcome { Done, Failed, NoExtension, Skipped, Rests };

// One transaction. Lives in the caller's frame, because a longjmp leaves the values of locals undefined.
struct Step {
    int index;  // of the duty, or kPlanStep
    TimestampTz now;
    TimestampTz grace;
    Outcome outcome;
    bool apart;     // in the process that only counts the table
    bool too_long;  // the duty was left to that process
    DutyOutcome duty;
    bool failed_before;  // and nothing has been said of its end
    bool fails_still;    // though it has left out nothing
    Rest rest;
    TimestampTz deadline;
    bool in_use;
    InstalledExtension extension;
};

const char *step_name(int index) {
    if (index == kPlanStep) return "planning";
    return index == kExecutorsStep ? "executors" : core::duty_name(static_cast<Duty>(index));
}

// A pass over the whole table.
bool is_recount(int index) { return index == static_cast<int>(Duty::Reconcile); }

// Is run apart: run_unblocking().
bool is_unblocking(int index) { return index == static_cast<int>(Duty::Unblock); }

// Whether it rests while jobs are to be left alone.
bool changes_jobs(int index) { return index != kPlanStep && !is_recount(index); }

void add_step_context(void *step) {
    errcontext("%s, %s", MyBgworkerEntry->bgw_name, step_name(static_cast<Step *>(step)->index));
}

void work(Step *step) {
    step->outcome = Outcome::Done;
    if (step->index == kPlanStep) {
        step->deadline = next_deadline(step->now, step->grace);
        step->in_use = database_in_use();
    } else if (is_recount(step->index) && !step->apart && recount_takes_long()) {
        step->too_long = true;
    } else if (changes_jobs(step->index) && (step->rest = rest_of_duties()) != Rest::None) {
        step->outcome = Outcome::Rests;
    } else if (step->index == kExecutorsStep) {
        supervise_executors(step->now);
    } else {
        // A job that fails one is left out.
        check_deferred_constraints();
        // To the unblocking that follows, which takes out a job that cannot be changed.
        leave_next_heads();
        const auto duty = static_cast<Duty>(step->index);
        step->duty = run_duty(duty, step->now, step->grace);
        step->fails_still = step->failed_before && step->duty.failed == 0 && leaves_out_still(duty);
    }
}

// As the owner of the extension: triggers and functions of other roles must not get a superuser's rights from us,
// nor may what they SET stay behind.
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
        step->outcome = Outcome::NoExtension;
    }
    disable_timeout(STATEMENT_TIMEOUT, false);
    CommitTransactionCommand();

    error_context_stack = context.previous;
}

// Somebody's lock was in the way: that ends soon, and then the duty is late.
bool is_passing(int sqlstate) {
    return sqlstate == ERRCODE_LOCK_NOT_AVAILABLE || sqlstate == ERRCODE_T_R_DEADLOCK_DETECTED ||
           sqlstate == ERRCODE_T_R_SERIALIZATION_FAILURE;
}

uint32 fingerprint_of(const char *message) {
    return hash_bytes(reinterpret_cast<const unsigned char *>(message), static_cast<int>(strlen(message))) | 1;
}

// Shows an error in jobq.workers. Under the lock.
void show_error(DatabaseState *db, int index, const char *message, TimestampTz now) {
    const char *name = step_name(index);
    const int room = kErrorBytes - 1 - static_cast<int>(strlen(name) + strlen(": "));
    // Cut at a character boundary.
    const int length = pg_mbcliplen(message, static_cast<int>(strlen(message)), room);
    snprintf(db->last_error, sizeof(db->last_error), "%s: %.*s", name, length, message);
    db->last_error_at = now;
    db->last_error_step = index;
    db->last_error_over_at = 0;
}

// What has failed last, if it was this, works again. Under the lock.
void show_end_of_error(DatabaseState *db, int index, TimestampTz now) {
    if (db->last_error_at != 0 && db->last_error_over_at == 0 && db->last_error_step == index)
        db->last_error_over_at = now;
}

// Records the error being handled, and ends its transaction. It goes to the log when it is another than the last time.
void record_error(DatabaseState *db, const Step *step, MemoryContext memory) {
    MemoryContextSwitchTo(memory);
    const ErrorData *error = CopyErrorData();
    const char *message = error->message != nullptr ? error->message : "unknown error";
    const uint32 fingerprint = fingerprint_of(message);
    StepReport *report = &db->steps[step->index];
    const bool passing = is_passing(error->sqlerrcode);
    const bool to_log = !passing || report->failures + 1 >= kPassingFailures;
    if (to_log && report->logged != fingerprint) EmitErrorReport();
    // Whatever lock of shared memory is held is let go before another is taken.
    AbortOutOfAnyTransaction();

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
    if (rested) ereport(LOG, (errmsg("%s goes on", MyBgworkerEntry->bgw_name)));
    if (left_out && logged != fingerprint)
        ereport(WARNING,
                (errmsg("%s, %s: left out " INT64_FORMAT " rows that could not be changed: %s",
                        MyBgworkerEntry->bgw_name, step_name(step->index), step->duty.failed, step->duty.error)));
    if (logged != 0 && fingerprint == 0)
        ereport(LOG, (errmsg("%s: %s works again", MyBgworkerEntry->bgw_name, step_name(step->index))));
}

// Nothing tells of the end of a restore; an adoption asks for a round.
void rest(DatabaseState *db, const Step *step) {
    const Rest why = step->rest;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    const bool begins = db->rests != why;
    db->rests = why;
    if (why == Rest::Restore) db->steps[step->index].not_before = GetCurrentTimestamp() + core::kSecond;
    LWLockRelease(database_states_lock());
    if (begins && why == Rest::Copy)
        ereport(WARNING, (errmsg("%s leaves the jobs alone: the database is a copy", MyBgworkerEntry->bgw_name),
                          errhint("%s", adoption_hint())));
    if (begins && why == Rest::Restore)
        ereport(LOG, (errmsg("%s rests while a dump is being restored", MyBgworkerEntry->bgw_name),
                      errdetail("It goes on when the session that restores has disconnected, or has been idle for a "
                                "minute.")));
}

void run_step(DatabaseState *db, Step *step, MemoryContext memory) {
    step->outcome = Outcome::Failed;
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
        step->outcome = Outcome::Failed;
        RESUME_INTERRUPTS();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(memory);
    if (step->outcome == Outcome::Done) record_success(db, step);
    if (step->outcome == Outcome::Rests) rest(db, step);
}

// The rest of the round can wait: somebody cannot.
bool interrupted(const DatabaseState *db) { return must_make_room(db) || ProcDiePending; }

void prepare_step(Step *step, int index, bool apart = false) {
    step->index = index;
    step->apart = apart;
    // In this order: the grace must not be older than the time that leases are judged by.
    step->now = checked_now();
    step->grace = grace_start();
}

// Prune and repair do what nobody waits for: once per tick interval is enough.
bool is_chore(int index) { return index == static_cast<int>(Duty::Prune) || index == static_cast<int>(Duty::Repair); }

bool recount_wanted(const DatabaseState *db, TimestampTz now) {
    return recount_due(false) <= now && may_start_recount(db, now);
}

bool chores_due(const DatabaseState *db, TimestampTz now) {
    return now - db->last_chores >= tick_interval() || now < db->last_chores;
}

struct Duties {
    bool wanted[kDutyCount];
    int64 done[kDutyCount];
    bool chores;
    bool any_wanted;  // left over
    bool any_done;
    bool unread;  // the prune goes on where it stopped, or the repair
};

// False: no extension.
bool run_duties(DatabaseState *db, Duties *duties, RoundState *state) {
    const TimestampTz begin = checked_now();
    duties->chores = chores_due(db, begin);
    for (int i = 0; i < kDutyCount; i++) {
        const bool allowed = bounded(db->steps[i].not_before, begin, core::kLongestLaunchBackoff) <= begin;
        duties->wanted[i] = allowed && !is_unblocking(i) && (!is_chore(i) || duties->chores) &&
                            (!is_recount(i) || recount_wanted(db, begin));
    }
    duties->any_wanted = true;
    // One batch of each in turn: a backlog of one duty must not delay another.
    for (int pass = 0; pass < kPassesPerRound && duties->any_wanted; pass++) {
        duties->any_wanted = false;
        for (int i = 0; i < kDutyCount; i++) {
            if (!duties->wanted[i]) continue;
            if (interrupted(db)) return true;
            Step step;
            prepare_step(&step, i);
            run_step(db, &step, state->context);
            if (step.outcome == Outcome::NoExtension) return false;
            if (step.too_long) start_recount(db, step.now);
            duties->done[i] += step.duty.done;
            duties->any_done |= step.duty.done > 0;
            duties->wanted[i] = step.duty.more;
            duties->unread |= step.duty.goes_on || (step.duty.unread && !step.duty.more);
            duties->any_wanted |= step.duty.more;
            send_notices(db, step.now);
            run_unblocking(db, state);
        }
    }
    return true;
}

void log_duties(const DatabaseState *db, const Duties &duties, RoundState *state) {
    const int64 unblocked = db->steps[static_cast<int>(Duty::Unblock)].done - state->unblocked;
    state->unblocked += unblocked;
    if (!duties.any_done && unblocked == 0) return;
    const auto done = [&](Duty duty) { return duties.done[static_cast<int>(duty)]; };
    ereport(settings.log_duties,
            (errmsg("%s: rescued " INT64_FORMAT ", cancelled " INT64_FORMAT ", promoted " INT64_FORMAT
                    ", schedules " INT64_FORMAT ", unblocked " INT64_FORMAT ", pruned " INT64_FORMAT
                    ", repaired " INT64_FORMAT ", reconciled " INT64_FORMAT,
                    MyBgworkerEntry->bgw_name, done(Duty::Rescue), done(Duty::Cancel), done(Duty::Promote),
                    done(Duty::Schedules), unblocked, done(Duty::Prune), done(Duty::Repair), done(Duty::Reconcile))));
}

// When the next round is due, by what the duties left and what the database says.
TimestampTz next_round(const DatabaseState *db, const Duties &duties, const Step &plan, RoundState *state) {
    const TimestampTz now = plan.now;
    if (duties.any_wanted) return now;
    if (db->rests == Rest::Copy) return now + kCopyInterval;
    const core::Micros tick = tick_interval();
    TimestampTz next = plan.outcome == Outcome::Failed ? db->steps[kPlanStep].not_before : plan.deadline;
    // Claims that come again and again and find nothing rely on the repair.
    const bool relied_on = bounded(db->relied_on + 2 * tick, now, 2 * tick) > now;
    if (plan.outcome == Outcome::Done && (plan.in_use || duties.unread || relied_on)) next = Min(next, now + tick);
    for (int i = 0; i < kDutyCount; i++) {
        if (db->steps[i].failures == 0) continue;
        TimestampTz again = bounded(db->steps[i].not_before, now, core::kLongestLaunchBackoff);
        if (is_chore(i)) again = Max(again, now + tick);
        next = Min(next, Max(again, now + kRoundGap));
    }
    // A deadline that stays in the past belongs to a row that somebody holds: look again, but ever more slowly.
    state->stalled = next <= now && !duties.any_done ? Min(state->stalled + 1, 16) : 0;
    const core::Micros longest = Min(tick, core::kSecond);
    const core::Micros pause = state->stalled == 0 ? kRoundGap : Min(longest, kRoundGap << (state->stalled - 1));
    return Max(next, now + pause);
}

void begin_round(DatabaseState *db) {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->in_round = true;
    // Commits from here on that this round may not see lower it again, and are not overwritten at the end.
    db->round_due = static_cast<TimestampTz>(pg_atomic_exchange_u64(&db->next_due, static_cast<uint64>(kNothingDue)));
    LWLockRelease(database_states_lock());
}

void end_round(DatabaseState *db, const Duties &duties, const Step &plan, TimestampTz next) {
    const TimestampTz now = GetCurrentTimestamp();
    lower_due(db, next);
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->in_round = false;
    db->rounds++;
    db->last_round = now;
    if (duties.chores) db->last_chores = now;
    db->failures = 0;
    db->not_before = 0;
    show_end_of_error(db, kWorkerStep, now);
    if (OidIsValid(plan.extension.oid)) {
        db->extension = Presence::Present;
        strlcpy(db->version, plan.extension.version, sizeof(db->version));
    } else if (db->extension == Presence::Unknown) {
        // Not even that could be found out: the visit is to be repeated, but not at once.
        db->failures = db->steps[kPlanStep].failures;
        db->not_before = db->steps[kPlanStep].not_before;
    }
    LWLockRelease(database_states_lock());
}

void end_without_extension(DatabaseState *db) {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->in_round = false;
    db->extension = Presence::Absent;
    db->failures = 0;
    db->not_before = 0;
    memset(db->steps, 0, sizeof(db->steps));
    show_end_of_error(db, db->last_error_step, GetCurrentTimestamp());
    LWLockRelease(database_states_lock());
    reset_unblocked(db);
    forget_awaited_jobs(MyDatabaseId);
    forget_executors_of(MyDatabaseId);
    drop_counters(MyDatabaseId);
    drop_totals(MyDatabaseId);
}

}  // namespace

bool must_make_room(const DatabaseState *db) { return db->keep_out > 0; }

TimestampTz run_unblocking(DatabaseState *db, RoundState *state) {
    // That a copy has been adopted only a round finds out.
    if (db->rests == Rest::Copy) return kNothingDue;
    const StepReport &report = db->steps[static_cast<int>(Duty::Unblock)];
    for (int pass = 0; pass < kPassesPerRound; pass++) {
        const TimestampTz now = checked_now();
        const TimestampTz due = Max(next_unblocking(now), bounded(report.not_before, now, core::kLongestLaunchBackoff));
        if (due > now || interrupted(db)) return due;
        Step step;
        prepare_step(&step, static_cast<int>(Duty::Unblock));
        run_step(db, &step, state->context);
        if (step.outcome == Outcome::NoExtension) return kNothingDue;
        pgstat_report_stat(false);
        pgstat_report_activity(STATE_IDLE, nullptr);
    }
    return GetCurrentTimestamp();
}

TimestampTz run_supervision(DatabaseState *db, RoundState *state) {
    if (pg_atomic_read_u32(&db->supervision) == 0 || interrupted(db) || db->extension != Presence::Present)
        return kNothingDue;
    const TimestampTz now = checked_now();
    state->supervised_at = bounded(state->supervised_at, now, kSupervisionGap);
    const TimestampTz due = Max(bounded(db->steps[kExecutorsStep].not_before, now, core::kLongestLaunchBackoff),
                                state->supervised_at + kSupervisionGap);
    if (due > now) return due;
    pg_atomic_write_u32(&db->supervision, 0);
    state->supervised_at = now;
    Step step;
    prepare_step(&step, kExecutorsStep);
    run_step(db, &step, state->context);
    pgstat_report_stat(false);
    pgstat_report_activity(STATE_IDLE, nullptr);
    return kNothingDue;
}

void run_recount(DatabaseState *db) {
    Step step;
    prepare_step(&step, static_cast<int>(Duty::Reconcile), true);
    run_step(db, &step, CurrentMemoryContext);
    pgstat_report_stat(true);
}

void give_up_round(DatabaseState *db) {
    if (!db->in_round) return;
    lower_due(db, Min(db->round_due, GetCurrentTimestamp()));
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->in_round = false;
    LWLockRelease(database_states_lock());
}

bool run_round(DatabaseState *db, RoundState *state) {
    begin_round(db);
    settle_prepared();
    Duties duties = {};
    Step plan = {};
    plan.outcome = Outcome::Skipped;
    bool present = run_duties(db, &duties, state);
    if (present && !interrupted(db)) {
        db->extension = Presence::Present;
        pg_atomic_write_u32(&db->supervision, 1);
        run_supervision(db, state);
    }
    if (present && !interrupted(db)) {
        prepare_step(&plan, kPlanStep);
        run_step(db, &plan, state->context);
        present = plan.outcome != Outcome::NoExtension;
    }
    if (!present)
        end_without_extension(db);
    else if (plan.outcome == Outcome::Skipped)
        give_up_round(db);
    else
        end_round(db, duties, plan, next_round(db, duties, plan, state));
    log_duties(db, duties, state);
    pgstat_report_stat(false);
    pgstat_report_activity(STATE_IDLE, nullptr);
    MemoryContextReset(state->context);
    return present;
}

}  // namespace jobq
