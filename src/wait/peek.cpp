// See peek.h. A claim skips rows that other transactions have locked, so this scan must skip these rows, too.
// Otherwise, a worker would be woken up again and again for a job that another worker is claiming. The scan must not
// lock rows, because a row lock writes to the table. Instead, it checks whether the transaction in the xmax of the row
// is still in progress.
#include "compat/pg.h"

#include "compat/args.h"
#include "core/claim_key.h"
#include "lanes/lanes.h"
#include "lanes/ready_walk.h"
#include "leases/suspects.h"
#include "limits/limiter.h"
#include "limits/throttled_ranges.h"
#include "limits/unthrottle.h"
#include "queues/directory.h"
#include "wait/peek.h"

namespace jobq {

namespace {

// The scan stops when it has found this number of jobs that other transactions hold. It then assumes that some later
// job is not held.
constexpr int kDepth = 16;
// Number of jobs that the claim after the wait is assumed to take, for throttled_ranges().
constexpr int kBatch = 100;

// Whether a claim by this worker skips suspects (leases/suspects.h), which it does if the worker is running a suspect.
// Determined when the scan finds the first suspect.
struct Trial {
    text *worker_id;
    bool asked;
    bool on;
};

bool passes_over_suspects(Trial *trial, Seen *seen) {
    if (trial->asked) return trial->on;
    trial->asked = true;
    TimestampTz until;
    trial->on = is_on_trial(trial->worker_id, &until);
    // The trial can also end early, when the worker sends a heartbeat or reports the outcome of its job. No session is
    // notified of this, so only the next periodic scan detects it.
    if (trial->on && until > GetCurrentTimestamp()) seen->due = Min(seen->due, until);
    return trial->on;
}

// Scans one lane, starting where a claim would start. `held` counts the jobs that other transactions hold.
void scan_lane(JobsTable *jobs, std::string_view queue, const Queue &settings, int64 lane, Trial *trial, int *held,
               Seen *seen) {
    const uint64 epoch = trigger_epoch();
    const core::ClaimKey first = first_possible_key(epoch, lane);
    if (first == core::kLastKey) return;
    core::EmptyRanges throttled = {};
    if (settings.limit_count > 0 && anything_throttled()) {
        throttled = throttled_ranges(jobs, queue, settings, lane, epoch, kBatch, GetCurrentTimestamp());
        seen->due = Min(seen->due, next_unthrottling(lane));
    }
    int passed = 0;
    walk_lane(
        jobs, lane, first, core::kLastKey, [&](const core::ClaimKey &key) { return core::skip_empty(throttled, key); },
        [&](const core::ClaimKey &key) {
            if (!fetch_claimable(jobs)) {
                // Assumes that a claimable job follows, because the claim also reads only this far, and records it.
                if (++passed < kMaxPassedExpired || !jobs->met_expired || !keeps_empty_ranges(epoch)) return Step::Next;
                *seen = {Peek::Claimable, key.id, seen->due};
                return Step::Stop;
            }
            if (!has_status(*jobs, core::JobStatus::Pending)) return Step::Next;
            if (is_suspect(*jobs) && passes_over_suspects(trial, seen)) return Step::Next;
            // All jobs of the lane have the same kind and the same named limits.
            if (waits_for_lane(*jobs, queue, settings, GetCurrentTimestamp(), &seen->due)) return Step::Stop;
            if (waits_for_key(*jobs, queue, settings, GetCurrentTimestamp(), &seen->due)) return Step::Next;
            if (row_is_held(jobs->table) && ++*held < kDepth) return Step::Next;
            *seen = {Peek::Claimable, key.id, seen->due};
            return Step::Stop;
        });
}

}  // namespace

Outlook read_outlook(std::string_view queue) {
    const Queue *found = find_queue(queue);
    Outlook outlook = {found->paused, false, DT_NOEND};
    outlook.limited = !queue_may_run(*found, queue, GetCurrentTimestamp(), &outlook.due);
    return outlook;
}

Seen scan_lanes(std::string_view queue, const core::WorkerFilter &filter, text *worker_id) {
    Seen seen = {Peek::Nothing, 0, DT_NOEND};
    const LaneIds lanes = wanted_lanes(queue, filter);
    const Queue settings = *find_queue(queue);
    int held = 0;
    Trial trial = {worker_id, false, false};
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    LaneWalk walk = {lanes.items, lanes.count, 0};
    int64 lane;
    core::ClaimKey first;
    for (int i = 0; seen.found != Peek::Claimable; i++) {
        if (!lanes.many && i == lanes.count) break;
        if (!lanes.many)
            lane = lanes.items[i];
        else if (!next_lane_with_entries(&jobs, &walk, &lane, &first))
            break;
        else if (!wants_lane(queue, lane, filter))
            continue;
        scan_lane(&jobs, queue, settings, lane, &trial, &held, &seen);
    }
    close_jobs(&jobs);
    if (seen.found != Peek::Claimable && held > 0) seen.found = Peek::Held;
    return seen;
}

}  // namespace jobq
