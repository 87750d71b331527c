// Where the lines of groups begin, as far as the server knows: no job with a lower id is in the line. The index entries
// of former heads stay in front of the next job until a vacuum removes them, and no vacuum can do so while an old
// transaction is open. Without this file, every look at a long-lived group would pass all of them.
//
// A job can also enter the line with a lower id: its transaction commits late, it is retried, or plain SQL puts it
// there. The session that puts a job into the line publishes this when other sessions can see the job, and the line
// begins there again. Except in the moment between these two, no job is in line before the recorded beginning. A look
// announces itself before it takes its snapshot, and stays announced until its transaction has committed and recorded
// what it found. Ids that are published in the meantime limit what is recorded, whether or not the snapshot shows these
// jobs. Because triggers publish these ids, a recorded beginning is valid for one trigger epoch (row/jobs_catalog.h).
//
// Groups share places in shared memory, and each place has room for one group: the group in whose line the most entries
// were passed lately, so that many groups with few jobs do not displace few groups with many jobs. Without preload,
// nothing is known.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"
#include "shmem/memory.h"

namespace jobq {

// ---- a look at the line of one group; its result is recorded when the transaction has committed

// Begins a look, before the snapshot is taken. Returns the number of the look, for the other functions.
int begin_line_look(int64 group);
// Returns the lowest id that may be in line, or PG_INT64_MIN if it is unknown. Call it under the snapshot.
int64 line_start(int look);
// Sets the result of the look: the snapshot shows no job with an id below `first` in line, and a scan from line_start()
// on passed `passed` entries. `whole`: the scan began at the very beginning of the line, so its result replaces a wrong
// one.
void found_line_start(int look, int64 first, int32 passed, bool whole);

// For main/jobq.cpp. Call these when the transaction has committed; when it was rolled back or prepared; when a
// savepoint is released; and when a savepoint is rolled back, because the snapshot of a look may have shown its
// changes.
void keep_line_starts();
void drop_line_starts();
void hand_line_looks_to_parent();
void void_line_looks_of_savepoint();

// ---- jobs that enter a line

// Publishes the jobs in the log of the transaction: for main/jobq.cpp, when other sessions can see them, and before
// this transaction looks itself.
void publish_lines();
// Publishes these entries, whose jobs other sessions can see already. Raises no error.
void publish_line_entries(const Unblocked *unblocked, int count, Blockers anything);
// Discards all recorded beginnings of a database, because it is unknown which jobs have entered its lines. Raises no
// error.
void forget_lines(Oid database);

// For main/jobq.cpp: its part of the shared memory.
Size line_starts_size();
void make_line_starts(void *memory, bool fresh);
SharedUsage line_starts_usage();

}  // namespace jobq
