// See prompt_steps.h.
#include "compat/pg.h"

#include "groups/unblock.h"
#include "processes/prompt_steps.h"
#include "processes/step.h"
#include "shmem/wall_clock.h"

extern "C" {
#include "pgstat.h"
#include "utils/backend_status.h"
}

namespace jobq {

namespace {

// Minimum time between two supervisions of the executors. It limits the number of supervisions, which is necessary
// because every commit can request one.
constexpr core::Micros kSupervisionGap = 5000;
// Maximum time between two supervisions while max_worker_processes leaves no room for an executor. In this case, the
// worker must try again, because no process is notified when another process frees its process slot. The slot of an
// executor that has exited becomes free only when the postmaster notices the exit.
constexpr core::Micros kLongestSupervisionGap = core::kSecond;

}  // namespace

TimestampTz run_unblocking(DatabaseState *db, MemoryContext memory) {
    // In a copy of a database, blocked jobs are not unblocked until a round finds that the copy has been adopted.
    if (db->rests == Rest::Copy) return kNothingDue;
    const StepReport &report = db->steps[static_cast<int>(Duty::Unblock)];
    for (int pass = 0; pass < kPassesPerRound; pass++) {
        const TimestampTz now = checked_now();
        const TimestampTz due = Max(next_unblocking(now), bounded(report.not_before, now, core::kLongestLaunchBackoff));
        if (due > now || interrupted(db)) return due;
        Step step;
        prepare_step(&step, static_cast<int>(Duty::Unblock));
        run_step(db, &step, memory);
        if (step.outcome == StepOutcome::NoExtension) return kNothingDue;
        pgstat_report_stat(false);
        pgstat_report_activity(STATE_IDLE, nullptr);
    }
    return GetCurrentTimestamp();
}

TimestampTz run_supervision(DatabaseState *db, MemoryContext memory) {
    static TimestampTz supervised_at = 0;
    static int64 gap = 0;  // microseconds until the next supervision while max_worker_processes leaves no room
    const auto lacks_process = [db] { return db->executors_wait == ExecutorWait::NoProcess; };
    const bool requested = pg_atomic_read_u32(&db->supervision) != 0;
    if ((!requested && !lacks_process()) || interrupted(db) || db->extension != Presence::Present) return kNothingDue;
    const TimestampTz now = checked_now();
    supervised_at = bounded(supervised_at, now, kSupervisionGap);
    const TimestampTz due = Max(bounded(db->steps[kExecutorsStep].not_before, now, core::kLongestLaunchBackoff),
                                supervised_at + (requested ? kSupervisionGap : gap));
    if (due > now) return due;
    pg_atomic_write_u32(&db->supervision, 0);
    supervised_at = now;
    Step step;
    prepare_step(&step, kExecutorsStep);
    run_step(db, &step, memory);
    pgstat_report_stat(false);
    pgstat_report_activity(STATE_IDLE, nullptr);
    if (!lacks_process()) {
        gap = 0;
        return kNothingDue;
    }
    gap = Min(Max(2 * gap, kSupervisionGap), kLongestSupervisionGap);
    return now + gap;
}

}  // namespace jobq
