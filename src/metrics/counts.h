// Counts the rows of jobq.jobs, for the counters and for readers while there are no counters. Call these functions
// inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/counts.h"
#include "job/duty_outcome.h"

namespace jobq {

// The numbers of a queue as readers see them.
struct QueueNumbers {
    std::string_view queue;
    int64 jobs[core::kJobStatusCount];
    double rates[core::kEventCount];
    bool counted;  // from counters; if false, the rows were counted and there are no rates
    bool paused;
};
struct QueueList {
    QueueNumbers *items;
    int count;
};
// Returns every queue that jobq.queues shows. The numbers come from the counters plus this transaction's own changes.
// Queues without counters are counted in one pass over the table under the active snapshot.
QueueList read_queue_numbers();
// Returns the numbers of unfinished jobs of one queue, from its counters or from indexes that contain only unfinished
// jobs. Other queues without counters are not counted.
QueueNumbers read_unfinished(std::string_view name);

// Counts the rows of the table and corrects the counters. `done` is the number of queues whose counters were wrong.
DutyOutcome reconcile_counters();
// Returns whether reconcile_counters() would take more than a few hundredths of a second.
bool table_is_large();

// Gets the due time of the job that has been claimable for the longest time. Returns false if no job is claimable.
// Reads only the first job of each lane and priority, and skips the empty ranges.
bool oldest_ready(text *queue, TimestampTz *run_at);
// Returns rows (queue, oldest heartbeat of its running jobs).
Rows oldest_heartbeats();

}  // namespace jobq
