// What the current transaction changes about the numbers of jobs. Every statement that inserts or deletes jobs, or
// changes their status or queue, says so here; what the statement is rolled back with, savepoints included, is
// forgotten, the rest is added to the counters when the transaction commits. Costs some ten nanoseconds a call.
#pragma once

#include "core/counts.h"
#include "pg/pg.h"

#include <string_view>

namespace jobq {

// `count` jobs of the queue, now with status `to`, had status `from`.
void count_at_commit(std::string_view queue, core::JobStatus from, core::JobStatus to, int64 count);
// Jobs that were inserted or deleted.
void count_inserts_at_commit(std::string_view queue, core::JobStatus status, int64 count);
void count_deletes_at_commit(std::string_view queue, core::JobStatus status, int64 count);
// One job that was given another queue, and maybe another status.
void count_move_at_commit(std::string_view from_queue, core::JobStatus from, std::string_view to_queue,
                          core::JobStatus to);
// Attempts that failed or were lost; the jobs' change of status is counted apart.
void count_event_at_commit(std::string_view queue, core::CountedEvent event, int64 count);
// Something that cannot be counted: the counters become unknown, and the worker counts the table.
void recount_at_commit();

// What this transaction has changed so far and not rolled back; a queue may occur more than once.
struct QueueChange;
const QueueChange *own_changes(int *count);
// By how many waiting jobs (scheduled, blocked, pending) it has made a queue deeper so far.
int64 own_depth(std::string_view queue);
// Whether recount_at_commit() was called in this transaction.
bool counts_unknown_here();

// For jobq.cpp.
void add_counted();  // to the counters, when others see the transaction
void keep_counted();
void forget_counted();
void hand_counted_to_parent();
void forget_counted_of_savepoint();

}  // namespace jobq
