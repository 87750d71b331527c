// What a session has cached from the catalog about jobq.jobs, its indexes, and its triggers. A change of any of them
// makes the session read the catalog again.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "table/attached.h"

namespace jobq {

// The indexes that the library itself reads.
enum class JobIndex : uint8 {
    Ids,
    Ready,
    RoundRobin,
    Keys,
    QueueSlot,
    KeySlot,
    GroupWaiting,
    GroupActive,
    Unique,
    Due,
    Running
};
constexpr int kJobIndexes = static_cast<int>(JobIndex::Running) + 1;

struct JobsCatalog {
    Oid table;
    Attached attached;
    Oid attempts;
    Oid attempts_index;  // InvalidOid: the index was dropped
};
// Raises 55000 if jobq's columns are not as the library expects, and 42P01 if the table was dropped.
const JobsCatalog &jobs_catalog();
// Returns whether jobs_catalog() is sure to raise no error: it has not changed, or this transaction cannot have changed
// the definition of the table.
bool can_read_jobs_catalog();

// Locks and opens jobq.jobs.
Relation open_jobs_relation(LOCKMODE mode);
// Locks jobq.jobs in ROW EXCLUSIVE mode, which every change of a job requires. A call that reads the settings of a
// queue takes this lock first, so that it sees all settings that were committed before the lock was granted.
void lock_jobs_table();
// Takes the same lock if it is free. Returns false if the call would have to wait, for example for CREATE INDEX.
bool try_lock_jobs_table();

// How rows are accessed now, and why. `refused`: jobq.access demands direct access, so every call fails for this
// reason.
struct JobsAccess {
    bool by_sql, refused;
    const char *reason;
};
JobsAccess jobs_access();
// Returns whether rows are accessed with SQL. Raises 0A000 if jobq.access demands direct access but the table needs
// SQL.
bool jobs_need_sql();

// Opens an index of jobq.jobs, which the caller has opened, for reading. Raises 55000 if the index was dropped, has
// another definition, or lacks jobs, for example after a failed CREATE INDEX CONCURRENTLY. With direct access, the
// indexes are known to be good.
Relation open_job_index(JobIndex which);
// Does the same, but returns nullptr if the index is not good, for callers that have an alternative.
Relation open_job_index_if_good(JobIndex which);
// Raises the error that open_job_index() would raise.
void require_job_index(JobIndex which);

// Returns the epoch of the empty ranges (lanes/empty_ranges.h), as this session sees it now. It changes with each
// change of the triggers on jobq.jobs that report manual changes. It is kNoEpoch if one of these triggers is missing or
// disabled, or if this transaction has changed one. The triggers cannot change while another session writes to the
// table or has opened it with open_jobs(). A session that reads the table for empty ranges holds this lock, and so does
// every change that no trigger reports.
uint64 trigger_epoch();

// Return the sequence of the identity column, the last value that it has given, and its next value.
Oid job_id_sequence();
int64 last_job_id();
int64 next_job_id();

// Convert a status to the value of the enum jobq.job_status, and back.
Oid stored_status(core::JobStatus status);
core::JobStatus job_status_of(Datum value);

}  // namespace jobq
