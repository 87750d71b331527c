// See tick.h. Only this file calls the functions in duties.h.
#include "compat/pg.h"

#include "batches/settle.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "core/job.h"
#include "duties/change_jobs.h"
#include "duties/dump_restore.h"
#include "duties/duties.h"
#include "duties/tick.h"
#include "groups/groups.h"
#include "groups/unblock.h"
#include "identity/identity.h"
#include "leases/young_leases.h"
#include "log/transaction_log.h"
#include "metrics/counters.h"
#include "metrics/counts.h"
#include "schedules/firing.h"
#include "shmem/database_state.h"

namespace jobq {

namespace {

// Interval at which the worker visits each database that has jobs, in order to prune finished jobs. The worker visits
// the database even if all of its jobs have finished.
constexpr core::Micros kPruneInterval = core::kMinute;

Statement find_unfinished = {
    R"(SELECT EXISTS (SELECT FROM jobq.jobs j WHERE j._rescue_indexed)
           OR EXISTS (SELECT FROM jobq.jobs j WHERE )" DUE R"()
           OR EXISTS (SELECT FROM jobq.jobs j WHERE j._ready))",
    {}};

Statement find_any = {"SELECT 1 FROM jobq.jobs j ORDER BY j.id LIMIT 1", {}};

TimestampTz grace_over(TimestampTz now) { return core::saturating_subtract(now, cancel_grace()); }

// Returns the start of the grace period. If the database is a copy that was adopted later, this is the time of the
// adoption, because workers might have been unable to reach the database before the adoption.
TimestampTz later_grace(TimestampTz grace_start) {
    const TimestampTz adopted = adopted_at();
    return adopted > GetCurrentTimestamp() ? grace_start : Max(grace_start, adopted);
}

// Records whether another session holds a lock on jobq.jobs for which duties must wait. If there is no such lock, locks
// the table, so that no other session can acquire such a lock until this transaction ends. Must be called before every
// statement that can wait for a lock on jobq.jobs, so that every wait is recorded.
void note_locks() {
    if (try_lock_jobs_table())
        note_jobs_free();
    else
        note_jobs_locked();
}

struct DutyCall {
    TimestampTz now, grace_start;
    int batches;

    int jobs(int batch) const { return static_cast<int>(Min(int64{batch} * batches, core::kMaxBatch)); }
};

// The functions that run the duties, in the order of the enum Duty.
constexpr DutyOutcome (*kCalls[])(const DutyCall &) = {
    [](const DutyCall &call) {
        return rescue_expired(call.now, grace_over(call.now), call.grace_start, call.jobs(settings.rescue_batch));
    },
    [](const DutyCall &call) {
        return cancel_overdue(call.now, grace_over(call.now), call.jobs(settings.rescue_batch));
    },
    [](const DutyCall &call) { return expire_unclaimed(call.now, call.jobs(settings.promote_batch)); },
    [](const DutyCall &call) { return promote_due(call.now, call.jobs(settings.promote_batch)); },
    [](const DutyCall &call) { return fire_due(call.now, call.grace_start); },
    [](const DutyCall &call) { return unblock_jobs(call.now, settings.promote_batch); },
    [](const DutyCall &call) { return settle_batches(call.now, settings.promote_batch); },
    [](const DutyCall &call) { return prune_finished(call.now, settings.prune_batch); },
    [](const DutyCall &call) { return repair(call.now, call.grace_start); },
    [](const DutyCall &) { return reconcile_counters(); },
};
static_assert(lengthof(kCalls) == kDutyCount);

// Returns whether any unfinished job exists, or any batch that waits for its callbacks.
bool any_unfinished_job() {
    bool any = false;
    if (next_young_due() != DT_NOEND || any_unsettled_batch()) return true;
    if (trigger_epoch() != kNoEpoch &&
        any_counted([](core::JobStatus status) { return !core::is_finished(status); }, &any))
        return any;
    return run(find_unfinished, Params())[0].bool_at(1) || any_group_waits();
}

// Returns whether any job exists.
bool any_job() {
    bool any = false;
    if (trigger_epoch() != kNoEpoch && any_counted([](core::JobStatus) { return true; }, &any)) return any;
    return run(find_any, Params()).size() > 0;
}

}  // namespace

Rest rest_of_duties() {
    return with_spi([] {
        note_locks();
        if (!no_restore()) return Rest::Restore;
        if (settle_identity()) recount_at_commit();
        return leaves_jobs_alone() ? Rest::Copy : Rest::None;
    });
}

DutyOutcome run_duty(Duty duty, TimestampTz now, TimestampTz grace_start, int batches) {
    const DutyCall call = {now, later_grace(grace_start), batches};
    return with_spi([&] {
        note_locks();
        return kCalls[static_cast<int>(duty)](call);
    });
}

bool leaves_out_still(Duty duty) {
    if (duty == Duty::Unblock) return unblocking_fails();
    if (duty == Duty::Batches) return with_spi([] { return any_batch_fails(); });
    return duty == Duty::Schedules && with_spi([] { return any_schedule_fails(); });
}

TimestampTz next_deadline(TimestampTz now, TimestampTz grace_start) {
    grace_start = later_grace(grace_start);
    return with_spi([&] {
        note_locks();
        // A recount also counts as a deadline, because as long as the counters are unknown, every session that reads
        // them must count the rows.
        const TimestampTz earliest =
            Min(Min(earliest_deadline(grace_start, cancel_grace()), next_schedule_due()), recount_due(true));
        return any_job() ? Min(earliest, core::saturating_add(now, kPruneInterval)) : earliest;
    });
}

bool recount_takes_long() {
    return with_spi([] { return table_is_large(); });
}

bool database_in_use() {
    return with_spi([] { return any_unfinished_job(); });
}

}  // namespace jobq
