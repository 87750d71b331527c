// See look.h. A claim passes over rows that others hold, so a look must too: a worker that is told of a job which
// somebody is claiming would call again and again. A look must not lock, since that writes; but a row that is locked or
// changed has the number of the transaction in its xmax, and whether that is still going on can be asked.
#include "pg/pg.h"

#include "core/claim_key.h"
#include "pg/args.h"
#include "shared/marks.h"
#include "shared/parked.h"
#include "shared/recent_filters.h"
#include "store/directory.h"
#include "store/jobs_table.h"
#include "store/limiter.h"
#include "store/look.h"
#include "store/parked.h"

extern "C" {
#include "access/sysattr.h"
#include "access/transam.h"
#include "storage/procarray.h"
}

namespace jobq {

namespace {

// So many held jobs in a row, and there may well be one behind them that is not.
constexpr int kDepth = 16;

// Whether somebody holds or changes the row that was found. A multixact looks like a transaction of that number, and
// may be taken for one that goes on: then the sleeper looks again soon.
bool is_held(const JobsTable &jobs) {
    bool is_null;
    const TransactionId holder =
        DatumGetTransactionId(slot_getsysattr(jobs.table.row, MaxTransactionIdAttributeNumber, &is_null));
    return TransactionIdIsValid(holder) && TransactionIdIsInProgress(holder);
}

// Looks into one lane, where a claim would begin. `held` counts the jobs that others hold.
void look_into_lane(JobsTable *jobs, std::string_view queue, const Queue &settings, int64 lane, int *held, Seen *seen) {
    const uint64 epoch = marks_epoch();
    core::ClaimKey key = first_possible_key(epoch, lane);
    if (key == core::kLastKey) return;
    core::EmptyRanges parked = {};
    if (settings.limit_count > 0 && anything_parked()) {
        parked = parked_ranges(jobs, queue, lane, epoch, GetCurrentTimestamp());
        seen->due = Min(seen->due, next_unparking(lane));
    }
    seek_ready(jobs, lane, key);
    while (next_ready(jobs, &key)) {
        CHECK_FOR_INTERRUPTS();
        const core::ClaimKey next = core::skip_empty(parked, key);
        if (key < next) {
            if (next == core::kLastKey) return;
            seek_ready(jobs, lane, next);
            continue;
        }
        if (!fetch_ready(jobs) || DatumGetObjectId(job_value(*jobs, kJobStatus)) != pending_status()) continue;
        if (waits_for_key(*jobs, queue, settings, GetCurrentTimestamp(), &seen->due)) continue;
        if (is_held(*jobs) && ++*held < kDepth) continue;
        *seen = {Sight::Claimable, key.id, seen->due};
        return;
    }
}

}  // namespace

Outlook read_outlook(std::string_view queue, const core::WorkerFilter &filter) {
    require_known_queue(queue);
    const Queue *found = find_queue(queue);
    note_filter(queue, filter, GetCurrentTimestamp());
    Outlook outlook = {found->paused, static_cast<int64 *>(palloc(sizeof(int64) * Max(found->lane_count, 1))), 0, false,
                       DT_NOEND};
    outlook.limited = !queue_may_run(*found, queue, GetCurrentTimestamp(), &outlook.due);
    for (int i = 0; i < found->lane_count; i++) {
        const Lane &lane = found->lanes[i];
        if (core::lane_matches(filter, lane.kind, lane.version, lane.required, lane.required_count))
            outlook.lanes[outlook.count++] = lane.id;
    }
    return outlook;
}

Seen look_into_lanes(std::string_view queue, const int64 *lanes, int count) {
    Seen seen = {Sight::Nothing, 0, DT_NOEND};
    const Queue *settings = find_queue(queue);
    int held = 0;
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int i = 0; i < count && seen.sight != Sight::Claimable; i++)
        look_into_lane(&jobs, queue, *settings, lanes[i], &held, &seen);
    close_jobs(&jobs);
    if (seen.sight != Sight::Claimable && held > 0) seen.sight = Sight::Held;
    return seen;
}

}  // namespace jobq
