// Records in shared memory where the line of each group begins. The beginning is a job id, and no job with a lower id
// is in the line. The index entries of former heads stay in front of the next job until a vacuum removes them, and no
// vacuum can remove them while an old transaction is open. Without the recorded beginnings, every scan of the line of a
// long-lived group would pass all of these entries.
//
// A job with an id below the recorded beginning can enter the line, because its transaction commits late, because it is
// retried, or because plain SQL puts it there. The session that puts a job into the line publishes the job's id when
// other sessions can see the job, and the recorded beginning moves down to this id. So except for the short time
// between these two events, no job is in line before the recorded beginning. A scan of a line is registered before its
// snapshot is taken, and stays registered until its transaction has committed and the result is recorded. The recorded
// beginning is never above an id that is published in the meantime, whether or not the snapshot shows the job. Because
// triggers publish these ids, a recorded beginning is valid for one trigger epoch (row/jobs_catalog.h).
//
// Several groups share a slot in shared memory, but each slot stores the beginning of only one group. This is the group
// for which scans have recently passed the most entries. So a few groups with many jobs are not displaced by many
// groups with few jobs. If jobq is not preloaded, no beginnings are recorded.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"
#include "shmem/memory.h"

namespace jobq {

// ---- Functions for scans of the line of one group. The names below call such a scan a "look". The result of a scan is
// recorded when the transaction has committed.

// Registers a scan. Call it before the snapshot is taken. Returns the number of the scan, which the functions below
// take as `look`.
int begin_line_look(int64 group);
// Returns the lowest id that a job in line can have, or PG_INT64_MIN if this id is unknown. Call it after the snapshot
// is taken.
int64 line_start(int look);
// Sets the result of the scan: according to the snapshot, no job in line has an id below `first`, and the scan has
// passed `passed` entries. If `whole` is true, the scan began before the first entry of the line instead of at
// line_start(), so its result also replaces a recorded beginning that is wrong.
void found_line_start(int look, int64 first, int32 passed, bool whole);

// main/jobq.cpp calls keep_line_starts() when the transaction has committed, drop_line_starts() when it has been rolled
// back or prepared, hand_line_looks_to_parent() when a savepoint is released, and void_line_looks_of_savepoint() when a
// savepoint is rolled back. After the rollback of a savepoint, the results of the scans in the savepoint are discarded,
// because the snapshots of these scans might have shown changes made in the savepoint.
void keep_line_starts();
void drop_line_starts();
void hand_line_looks_to_parent();
void void_line_looks_of_savepoint();

// ---- Functions that publish the jobs that enter a line

// Publishes the jobs in the transaction's log that have entered a line. main/jobq.cpp calls this function when other
// sessions can see the jobs; groups/successors.cpp calls it before the current transaction scans a line.
void publish_lines();
// Publishes the jobs in these entries. Call it only when other sessions can see the jobs. Never raises an error.
void publish_line_entries(const Unblocked *unblocked, int count, Blockers anything);
// Discards all recorded beginnings of a database. Call it if it is unknown which jobs have entered the lines of this
// database. Never raises an error.
void forget_lines(Oid database);

// main/jobq.cpp calls these functions to set up the recorded beginnings in shared memory.
Size line_starts_size();
void make_line_starts(void *memory, bool fresh);
SharedUsage line_starts_usage();

}  // namespace jobq
