// The counters of all queues in shared memory: for each queue of each database, the number of jobs by status and totals
// since the server started. The transaction log supplies the changes; src/metrics/counts.cpp reads the counters.
// Without preload or with jobq.max_counted_queues = 0, there are no counters, and every function reports that.
//
// The table is the truth. The counters of a database are unknown until its rows have been counted. Any event that may
// make them wrong makes them unknown again; readers then count the rows.
//
// A recount is exact even though other transactions commit in the meantime. A commit adds its changes under the shared
// lock after it has become visible. A recount takes its snapshot under the exclusive lock and records which
// transactions it sees. From then on, each commit falls into one of three cases:
//   - Added before the snapshot: the count contains it and overwrites it.
//   - Visible in the snapshot, but added later because its session was slow: the count contains it, so once the count
//     has been entered, nothing is added.
//   - Not visible in the snapshot: it is added and also noted separately during the count; entered = counted + noted.
// The list of seen transactions stays until the next recount for the second case, because a session can be arbitrarily
// slow.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "core/counts.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// main/jobq.cpp calls these functions for this part of the shared memory.
Size counters_size();
void make_counters(void *memory, bool fresh);
SharedUsage counters_usage();

struct QueueChange;  // log/logged.h

// Adds the changes of a transaction of this database that has just become visible. `forget` makes the counters unknown.
// Raises no error.
void add_changes(const QueueChange *changes, int count, FullTransactionId xid, bool forget);

// main/jobq.cpp calls these functions.
void publish_counts();  // from the transaction log
void abandon_recount();

// Makes the counters of that database unknown, because a prepared transaction with unknown changes may have committed.
void forget_counters(Oid database_oid);
// Removes the counters of a database that was dropped or whose extension was dropped.
void drop_counters(Oid database_oid);

// The counters of a queue, for readers.
struct CountedQueue {
    QueueName queue;
    int64 jobs[core::kJobStatusCount];
    double rates[core::kEventCount];
};
struct CountedQueues {
    bool known;     // false if the rows must be counted
    bool complete;  // true if a queue that is not listed has no jobs
    CountedQueue *queues;
    int count;
};
CountedQueues read_counters();

// Reads the number of waiting committed jobs of a queue with one lookup. Returns false if the number is unknown, so
// that the caller must count the rows.
bool read_depth(std::string_view queue, int64 *depth);

// Whether any committed job has a status for which is_wanted() holds. Returns false if the counters are unknown, so
// that the caller must read the rows.
bool any_counted(bool (*is_wanted)(core::JobStatus), bool *any);

// ---- recounts

// Returns when the counters of this database should be recounted, or DT_NOEND if never. With `unknown_only`, only
// unknown counters are recounted.
TimestampTz recount_due(bool unknown_only);
bool recount_due_by_hand(TimestampTz now);

// Begins a recount in this session. Returns a registered snapshot to count under, or nullptr if another session is
// counting this database or there is no room. The recount is abandoned if the (sub)transaction aborts.
Snapshot begin_recount();
struct QueueCount {
    QueueName queue;
    int64 jobs[core::kJobStatusCount];  // jobs in the table, by the snapshot
    int64 own[core::kJobStatusCount];   // of these, changes that this transaction has not committed yet
    bool entered;                       // used by end_recount()
};
// Enters the counted numbers. `complete` means that no queue had to be left out. Returns the number of queues whose
// counters were wrong, or 0 if the counters were unknown.
int64 end_recount(QueueCount *queues, int count, bool complete);

}  // namespace jobq
