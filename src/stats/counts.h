// Counting the rows of jobq.jobs, for the counters and for readers while there are none. Inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "job/duty_outcome.h"
#include "stats/counts_policy.h"

namespace jobq {

// A queue as its readers see it.
struct QueueNumbers {
    std::string_view queue;
    int64 jobs[core::kJobStatusCount];
    double rates[core::kEventCount];
    bool counted;  // by counters: otherwise the rows were counted, and there are no rates
    bool paused;
};
struct QueueList {
    QueueNumbers *items;
    int count;
};
// Every queue that jobq.queues shows. From the counters, with this transaction's own changes; those that have no
// counters by one pass over the table, under the active snapshot.
QueueList read_queue_numbers();
// Returns the numbers of unfinished jobs of one queue: from its counters, or by indexes that have only unfinished jobs.
// Other queues without counters are not counted.
QueueNumbers read_unfinished(std::string_view name);

// Counts the table and sets the counters right. Done: how many queues' counters were wrong.
DutyOutcome reconcile_counters();
// Whether that takes more than some hundredths of a second.
bool table_is_large();

// Since when the job that has been claimable for longest is claimable. False when none is. Looks at the first job of
// each lane and priority only, and not where the empty ranges say that there is none.
bool oldest_ready(text *queue, TimestampTz *run_at);
// Rows (queue, oldest heartbeat of its running jobs).
Rows oldest_heartbeats();

}  // namespace jobq
