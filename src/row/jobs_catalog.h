// The session's cache of catalog data about jobq.jobs, its indexes, and its triggers. When one of them changes, the
// session reads the catalog again.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "table/attached.h"

namespace jobq {

// The indexes that the library scans directly.
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
// Returns whether jobs_catalog() certainly raises no error, because the cache is valid or because this transaction
// cannot have changed the definition of the table.
bool can_read_jobs_catalog();

// Locks and opens jobq.jobs.
Relation open_jobs_relation(LOCKMODE mode);
// Locks jobq.jobs in ROW EXCLUSIVE mode, which every change of a job requires. A function that reads the settings of a
// queue takes this lock first, so that it sees all settings that were committed before the lock was granted.
void lock_jobs_table();
// Takes the same lock if that is possible without waiting. Returns false if another session holds a conflicting lock,
// for example CREATE INDEX.
bool try_lock_jobs_table();

// Whether rows are currently accessed with SQL, and the reason. `refused` means that jobq.access demands direct access
// but the table needs SQL for this reason, so that every call fails.
struct JobsAccess {
    bool by_sql, refused;
    const char *reason;
};
JobsAccess jobs_access();
// Returns whether rows are accessed with SQL. Raises 0A000 if jobq.access demands direct access but the table needs
// SQL.
bool jobs_need_sql();

// Opens an index of jobq.jobs for reading. The caller must have opened the table. Raises 55000 if the index was
// dropped, has another definition, or is incomplete, for example after a failed CREATE INDEX CONCURRENTLY. If the table
// is accessed directly, its indexes have been checked already.
Relation open_job_index(JobIndex which);
// Does the same, but returns nullptr instead of raising an error. For callers that can do without the index.
Relation open_job_index_if_good(JobIndex which);
// Raises an error if open_job_index() would raise one.
void require_job_index(JobIndex which);

// Returns the trigger epoch: a number that identifies the current definitions of the triggers on jobq.jobs that report
// changes with plain SQL. Empty ranges (lanes/empty_ranges.h) are valid only for the epoch in which they were recorded.
// The epoch is kNoEpoch if one of these triggers is missing or disabled, or if this transaction has changed one. The
// triggers cannot change while another session holds the lock on the table that writing it or open_jobs() takes. A
// session that scans the table to record empty ranges holds this lock, and so does every session that makes a change
// that no trigger reports.
uint64 trigger_epoch();

// Return the OID of the sequence of the identity column, the last value that it has returned, and its next value.
Oid job_id_sequence();
int64 last_job_id();
int64 next_job_id();

// Convert a status to the value of the enum jobq.job_status, and back.
Oid stored_status(core::JobStatus status);
core::JobStatus job_status_of(Datum value);

}  // namespace jobq
