// The counters of the queues in shared memory: jobs by status, and totals since the server started, for each queue of
// each database. The log of the transaction says what changes; read by src/stats/counts.cpp. Without preload, and with
// jobq.max_counted_queues = 0, there are none and every function says so.
//
// The table is the truth. The counters of a database are unknown until it has been counted, and whatever might have
// made them wrong makes them unknown again; then readers count the rows.
//
// How a recount is exact although others commit meanwhile. A commit adds its changes after it has become visible,
// under the shared lock. A recount takes its snapshot under the exclusive lock and leaves there which transactions it
// sees. From then on each commit knows which side of the snapshot it is on:
//   - added before the snapshot: visible in it, and overwritten by the count, which contains it;
//   - visible in it, but added later, because its session was late: contained in the count, so nothing is added once
//     the count has been entered;
//   - not visible in it: added, and also noted apart while the count goes on; entered = counted + noted.
// The transactions seen stay known until the next recount, for the sake of the second kind, however late it is.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "stats/counts_policy.h"

#include <string_view>

namespace jobq {

// For main/jobq.cpp: its part of the shared memory.
Size counters_size();
void make_counters(void *memory, bool fresh);

struct QueueChange;  // job/logged.h

// Adds the changes of a transaction of this database that has just become visible. `forget`: something happened that
// makes the counters unknown. Raises no error.
void add_changes(const QueueChange *changes, int count, FullTransactionId xid, bool forget);

// For main/jobq.cpp.
void publish_counts();  // of the log
void abandon_recount();

// A prepared transaction of that database may have been committed whose changes nobody knows.
void forget_counters(Oid database_oid);
// The database or its extension is gone.
void drop_counters(Oid database_oid);

// A queue as counted, for readers.
struct CountedQueue {
    QueueName queue;
    int64 jobs[core::kJobStatusCount];
    double rates[core::kEventCount];
};
struct CountedQueues {
    bool known;     // false: the rows must be counted
    bool complete;  // true: a queue that is not among them has no jobs
    CountedQueue *queues;
    int count;
};
CountedQueues read_counters();

// How many jobs of a queue wait, as committed; costs one look-up. False: nobody knows, the rows must be counted.
bool read_depth(std::string_view queue, int64 *depth);

// Whether any committed job has a status for which is_wanted() holds. Returns false if the counters are unknown, so
// that the caller must read the rows.
bool any_counted(bool (*is_wanted)(core::JobStatus), bool *any);

// ---- recounts

// When the counters of this database should be counted again; DT_NOEND: never, there are none.
// `unknown_only`: only if they are unknown.
TimestampTz recount_due(bool unknown_only);
bool recount_due_by_hand(TimestampTz now);

// Begins a recount in this session: returns the snapshot to count under, registered; nullptr when another session
// counts this database, or there is no room. The recount is abandoned when the (sub)transaction aborts.
Snapshot begin_recount();
struct QueueCount {
    QueueName queue;
    int64 jobs[core::kJobStatusCount];  // in the table, by the snapshot
    int64 own[core::kJobStatusCount];   // of these, by changes that this transaction has not committed yet
    bool entered;                       // for end_recount()
};
// Enters what was counted. `complete`: no queue had to be left out. Returns how many queues' counters were wrong; 0
// when they were unknown.
int64 end_recount(QueueCount *queues, int count, bool complete);

}  // namespace jobq
