// The counters of all queues, which are in shared memory. For each queue of each database, they contain the number of
// jobs in each status, and totals since the server started. Each transaction adds its changes from its log
// (log/transaction_log.h) when it commits. There are no counters if the library is not preloaded or
// jobq.max_counted_queues is 0; in this case, every function reports that the counters are unknown.
//
// The table jobq.jobs is authoritative. The counters of a database are unknown until the rows of the table have been
// counted. An event that might have made the counters wrong makes them unknown again, and readers count the rows
// instead.
//
// A recount is exact even if other transactions commit in the meantime. A session adds the changes of its transaction
// under the shared lock after its commit has become visible. A recount takes its snapshot under the exclusive lock and
// records which transactions the snapshot sees. So the changes of each transaction fall into one of three cases:
//   - They were added before the snapshot was taken: the result of the recount contains them and overwrites the
//     counters.
//   - They are visible in the snapshot, but the session has not added them yet: the result of the recount contains
//     them, so the session must not add them after the result has been stored.
//   - They are not visible in the snapshot: the session adds them to the counters and, during the recount, also to a
//     separate sum. The recount stores its result plus this sum.
// The record of visible transactions is kept until the next recount because of the second case, in which a session can
// be arbitrarily slow.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "core/counts.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// main/jobq.cpp calls these functions to set up and monitor this part of shared memory.
Size counters_size();
void make_counters(void *memory, bool fresh);
SharedUsage counters_usage();

struct QueueChange;  // log/logged.h

// Adds the changes of a transaction of this database whose commit has just become visible. If `forget` is true, makes
// the counters unknown instead. Raises no error.
void add_changes(const QueueChange *changes, int count, FullTransactionId xid, bool forget);

// main/jobq.cpp calls these functions when a transaction ends.
void publish_counts();  // from the transaction log
void abandon_recount();

// Makes the counters of a database unknown. Called if a prepared transaction with unknown changes might have committed
// in this database.
void forget_counters(Oid database_oid);
// Removes the counters of a database that was dropped or whose extension was dropped.
void drop_counters(Oid database_oid);

// A copy of the counters of a queue, for readers.
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

// Reads how many committed jobs of a queue are waiting. Needs only one lookup. Returns false if the number is unknown,
// so that the caller must count the rows.
bool read_depth(std::string_view queue, int64 *depth);

// Sets *any to true if a committed job has a status for which is_wanted() returns true, and to false otherwise. Returns
// false if the counters are unknown, so that the caller must read the rows.
bool any_counted(bool (*is_wanted)(core::JobStatus), bool *any);

// The following functions are called by sessions that recount the jobs of this database.

// Returns the time at which the counters of this database should be recounted, or DT_NOEND if they need no recount. If
// `unknown_only` is true, known counters need no recount.
TimestampTz recount_due(bool unknown_only);
bool recount_due_by_hand(TimestampTz now);

// Begins a recount in this session. Returns a registered snapshot under which the caller must count the rows, or
// nullptr if another session is already counting this database or there is no room. The recount is abandoned if the
// (sub)transaction aborts.
Snapshot begin_recount();
struct QueueCount {
    QueueName queue;
    int64 jobs[core::kJobStatusCount];  // jobs in the table, by the snapshot
    int64 own[core::kJobStatusCount];   // how much of these numbers comes from uncommitted changes of this transaction
    bool entered;                       // used by end_recount()
};
// Stores the result of the recount in the counters. `complete` means that `queues` contains every queue that has jobs.
// Returns the number of queues whose counters were wrong, or 0 if the counters were unknown.
int64 end_recount(QueueCount *queues, int count, bool complete);

}  // namespace jobq
