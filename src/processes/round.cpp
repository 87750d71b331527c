// See round.h. A step that fails is retried later; the other steps continue.
#include "compat/pg.h"

#include "commit/prepared.h"
#include "compat/settings.h"
#include "edges/awaited_jobs.h"
#include "groups/unblocked_list.h"
#include "handlers/executor_slots.h"
#include "metrics/counters.h"
#include "metrics/totals.h"
#include "processes/notify.h"
#include "processes/prompt_steps.h"
#include "processes/recount.h"
#include "processes/round.h"
#include "processes/step.h"
#include "shmem/wall_clock.h"

extern "C" {
#include "pgstat.h"
#include "utils/backend_status.h"
}

namespace jobq {

namespace {

// Interval at which a worker visits a database that is a copy and has not been adopted. The worker visits the copy
// because jobq.identity might have been changed with plain SQL.
constexpr core::Micros kCopyInterval = core::kMinute;
// Minimum time between two rounds, so that jobs that become due shortly after each other are promoted together.
constexpr core::Micros kRoundGap = 10000;

// Returns whether this is the duty "unblock", which run_unblocking() runs outside the loop of the other duties.
bool is_unblocking(int index) { return index == static_cast<int>(Duty::Unblock); }

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
    bool any_wanted;  // a duty has more work to do
    bool any_done;
    bool unread;  // the prune or the repair has stopped before the end of its search and must continue
};

// Runs the duties. Returns false if the database does not have the extension.
bool run_duties(DatabaseState *db, Duties *duties, RoundState *state) {
    const TimestampTz begin = checked_now();
    duties->chores = chores_due(db, begin);
    for (int i = 0; i < kDutyCount; i++) {
        const bool allowed = bounded(db->steps[i].not_before, begin, core::kLongestLaunchBackoff) <= begin;
        duties->wanted[i] = allowed && !is_unblocking(i) && (!core::kDuties[i].chore || duties->chores) &&
                            (!is_recount(i) || recount_wanted(db, begin));
    }
    duties->any_wanted = true;
    // Each pass runs one batch of each duty, so that the backlog of one duty does not delay another duty.
    for (int pass = 0; pass < kPassesPerRound && duties->any_wanted; pass++) {
        duties->any_wanted = false;
        for (int i = 0; i < kDutyCount; i++) {
            if (!duties->wanted[i]) continue;
            if (interrupted(db)) return true;
            Step step;
            prepare_step(&step, i);
            run_step(db, &step, state->context);
            if (step.outcome == StepOutcome::NoExtension) return false;
            if (step.too_long) start_recount(db, step.now);
            duties->done[i] += step.duty.done;
            duties->any_done |= step.duty.done > 0;
            duties->wanted[i] = step.duty.more;
            duties->unread |= step.duty.goes_on || (step.duty.unread && !step.duty.more);
            duties->any_wanted |= step.duty.more;
            send_notices(db, step.now);
            run_unblocking(db, state->context);
        }
    }
    return true;
}

// Logs how many jobs each duty has changed. Omits duties that have changed no jobs.
void log_duties(const DatabaseState *db, Duties *duties, RoundState *state) {
    int64 *unblocked = &duties->done[static_cast<int>(Duty::Unblock)];
    *unblocked = db->steps[static_cast<int>(Duty::Unblock)].done - state->unblocked;
    state->unblocked += *unblocked;
    if (!duties->any_done && *unblocked == 0) return;
    StringInfoData done;
    initStringInfo(&done);
    for (int i = 0; i < kDutyCount; i++)
        if (duties->done[i] > 0)
            appendStringInfo(&done, "%s%s " INT64_FORMAT, done.len > 0 ? ", " : "", core::kDuties[i].name,
                             duties->done[i]);
    ereport(settings.log_duties, (errmsg("%s: %s", MyBgworkerEntry->bgw_name, done.data)));
    pfree(done.data);
}

// Returns when the next round is due, based on the results of the duties and of the planning step.
TimestampTz next_round(const DatabaseState *db, const Duties &duties, const Step &plan, RoundState *state) {
    const TimestampTz now = plan.now;
    if (duties.any_wanted) return now;
    if (db->rests == Rest::Copy) return now + kCopyInterval;
    const core::Micros tick = tick_interval();
    TimestampTz next = plan.outcome == StepOutcome::Failed ? db->steps[kPlanStep].not_before : plan.deadline;
    // A claim that finds no job relies on the known empty ranges of the index. Rounds maintain these ranges, so rounds
    // must continue as long as claims rely on the ranges.
    const bool relied_on = bounded(db->relied_on + 2 * tick, now, 2 * tick) > now;
    if (plan.outcome == StepOutcome::Done && (plan.in_use || duties.unread || relied_on)) next = Min(next, now + tick);
    for (int i = 0; i < kDutyCount; i++) {
        if (db->steps[i].failures == 0) continue;
        TimestampTz again = bounded(db->steps[i].not_before, now, core::kLongestLaunchBackoff);
        if (core::kDuties[i].chore) again = Max(again, now + tick);
        next = Min(next, Max(again, now + kRoundGap));
    }
    // If the next deadline is in the past although the duties have just run, another transaction has locked the row
    // with this deadline, so the pause before the next attempt grows.
    state->stalled = next <= now && !duties.any_done ? Min(state->stalled + 1, 16) : 0;
    const core::Micros longest = Min(tick, core::kSecond);
    const core::Micros pause = state->stalled == 0 ? kRoundGap : Min(longest, kRoundGap << (state->stalled - 1));
    return Max(next, now + pause);
}

void begin_round(DatabaseState *db) {
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->in_round = true;
    // The round might not see commits that happen after this point. Such a commit lowers next_due again, and
    // end_round() keeps the lower value.
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
        // The round could not determine whether the extension exists, so the launcher must visit the database again
        // later.
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
    plan.outcome = StepOutcome::Skipped;
    bool present = run_duties(db, &duties, state);
    if (present && !interrupted(db)) {
        LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
        db->extension = Presence::Present;
        LWLockRelease(database_states_lock());
        pg_atomic_write_u32(&db->supervision, 1);
        run_supervision(db, state->context);
    }
    if (present && !interrupted(db)) {
        prepare_step(&plan, kPlanStep);
        run_step(db, &plan, state->context);
        present = plan.outcome != StepOutcome::NoExtension;
    }
    if (!present)
        end_without_extension(db);
    else if (plan.outcome == StepOutcome::Skipped)
        give_up_round(db);
    else
        end_round(db, duties, plan, next_round(db, duties, plan, state));
    log_duties(db, &duties, state);
    pgstat_report_stat(false);
    pgstat_report_activity(STATE_IDLE, nullptr);
    MemoryContextReset(state->context);
    return present;
}

}  // namespace jobq
