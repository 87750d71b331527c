// Counts the rows of jobq.jobs, to correct the counters (metrics/counters.h) and to answer readers while the counters
// are unknown. Call these functions inside with_spi().
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "compat/spi.h"
#include "core/counts.h"
#include "job/duty_outcome.h"

namespace jobq {

// The numbers of jobs in a queue, as readers see them.
struct QueueNumbers {
    std::string_view queue;
    int64 jobs[core::kJobStatusCount] = {};
    double rates[core::kEventCount] = {};
    bool counted =
        false;  // true if the numbers come from counters; false if the rows were counted, so that `rates` is not set
    bool paused = false;
};
using QueueList = Notes<QueueNumbers>;
// Returns the numbers of jobs in every queue that jobq.queues shows: the counters of the queue plus the uncommitted
// changes of this transaction. For queues without counters, counts the rows of jobq.jobs in one pass under the active
// snapshot.
QueueList read_queue_numbers();
// Reads the numbers of jobs of one queue from its counters, plus the uncommitted changes of this transaction. Returns
// false if the counters are unknown. Reads no rows.
bool read_counted(std::string_view name, QueueNumbers *numbers);
// Returns the numbers of unfinished jobs of one queue. Reads its counters or, if they are unknown, indexes that contain
// only unfinished jobs.
QueueNumbers read_unfinished(std::string_view name);

// Counts the rows of the table and corrects the counters. The result's `done` is the number of queues whose counters
// were wrong.
DutyOutcome reconcile_counters();
// Returns whether reconcile_counters() would take more than a few hundredths of a second.
bool table_is_large();

// Sets *run_at to the due time of the job that has been claimable for the longest time. Returns false if no job is
// claimable. Reads only the first job of each lane and priority, and skips ranges of the index that are known to be
// empty (lanes/empty_ranges.h).
bool oldest_ready(text *queue, TimestampTz *run_at);
// Returns the oldest heartbeat of the running jobs of each queue, as rows (queue, heartbeat).
Rows oldest_heartbeats();

}  // namespace jobq
