// Records in shared memory where the line of a group begins: no job with a lower id is in the line. The index entries
// of former heads stay in front of the next job until a vacuum removes them, and no vacuum can remove them while an old
// transaction is open. Without the recorded beginnings, every scan of the line of a long-lived group would pass all of
// these entries.
//
// A job with an id below the recorded beginning can enter the line, because its transaction commits late, because it is
// retried, or because plain SQL puts it there. The session that puts a job into the line publishes the job's id when
// other sessions can see the job, and the recorded beginning moves down to this id. Except in the moment between these
// two events, no job is in line before the recorded beginning. A scan of a line is registered before its snapshot is
// taken, and stays registered until its transaction has committed and the result is recorded. The recorded beginning is
// never above an id that is published in the meantime, whether or not the snapshot shows the job. Because triggers
// publish these ids, a recorded beginning is valid for one trigger epoch (row/jobs_catalog.h).
//
// Several groups share a slot in shared memory, and each slot holds one group: the group in whose line scans have
// recently passed the most entries, so that many groups with few jobs do not displace few groups with many jobs.
// Without preload, no beginnings are recorded.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"
#include "shmem/memory.h"

namespace jobq {

// ---- a scan of the line of one group ("look"); its result is recorded when the transaction has committed

// Registers a scan. Call it before the snapshot is taken. Returns the number of the scan, for the other functions.
int begin_line_look(int64 group);
// Returns the lowest id that may be in line, or PG_INT64_MIN if it is unknown. Call it after the snapshot is taken.
int64 line_start(int look);
// Sets the result of the scan: the snapshot shows no job with an id below `first` in line, and the scan has passed
// `passed` entries. `whole`: the scan began before the first entry of the line instead of at line_start(), so its
// result also replaces a recorded beginning that is wrong.
void found_line_start(int look, int64 first, int32 passed, bool whole);

// For main/jobq.cpp. Call the first function when the transaction has committed, the second one when it was rolled back
// or prepared, the third one when a savepoint is released, and the last one when a savepoint is rolled back, because
// the snapshot of a scan may have shown the changes of the savepoint.
void keep_line_starts();
void drop_line_starts();
void hand_line_looks_to_parent();
void void_line_looks_of_savepoint();

// ---- jobs that enter a line

// Publishes the jobs in the log of the transaction that have entered a line. main/jobq.cpp calls it when other sessions
// can see the jobs; groups/successors.cpp calls it before this transaction scans a line itself.
void publish_lines();
// Publishes the jobs of these entries, which other sessions can see already. Never raises an error.
void publish_line_entries(const Unblocked *unblocked, int count, Blockers anything);
// Discards all recorded beginnings of a database, because it is unknown which jobs have entered its lines. Never raises
// an error.
void forget_lines(Oid database);

// Set up the recorded beginnings in shared memory, for main/jobq.cpp.
Size line_starts_size();
void make_line_starts(void *memory, bool fresh);
SharedUsage line_starts_usage();

}  // namespace jobq
