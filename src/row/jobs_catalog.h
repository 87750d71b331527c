// The session's cache of catalog data about jobq.jobs, its indexes, and its triggers. When the table, an index, or a
// trigger changes, the session reads the catalog again.
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
    KindSlot,
    LimitSlot1,
    LimitSlot2,
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
    Oid attempts, log_lines;
    Oid attempts_index, log_lines_index;  // InvalidOid: the index was dropped
};
// Returns the cached catalog data. Raises 55000 if jobq's columns are not as the library expects, and 42P01 if the
// table was dropped.
const JobsCatalog &jobs_catalog();
// Returns true if jobs_catalog() is certain not to raise an error. This is the case if the cache is valid, or if this
// transaction cannot have changed the definition of the table.
bool can_read_jobs_catalog();

// Locks and opens jobq.jobs.
Relation open_jobs_relation(LOCKMODE mode);
// Locks jobq.jobs in ROW EXCLUSIVE mode, which every change to a job requires. A function that reads the settings of a
// queue takes this lock first, so that it sees all settings that were committed before the lock was granted.
void lock_jobs_table();
// Locks jobq.jobs, but only if this is possible without waiting. Returns false if another session holds a conflicting
// lock, for example for CREATE INDEX.
bool try_lock_jobs_table(LOCKMODE mode = RowExclusiveLock);

// Whether the rows of jobq.jobs are currently accessed with SQL, and the reason. If `refused` is true, every call
// fails, because jobq.access requires direct access although `reason` rules out direct access.
struct JobsAccess {
    bool by_sql, refused;
    const char *reason;
};
JobsAccess jobs_access();
// Returns whether the rows of jobq.jobs are accessed with SQL. Raises 0A000 if jobq.access requires direct access but
// the table requires access with SQL.
bool jobs_need_sql();

// Opens an index of jobq.jobs for reading. The caller must have opened the table. Raises 55000 if the index was
// dropped, has an unexpected definition, or is incomplete, for example after a failed CREATE INDEX CONCURRENTLY. When
// rows are accessed directly, the indexes have already been checked, so this error cannot occur.
Relation open_job_index(JobIndex which);
// Opens an index like open_job_index(), but returns nullptr instead of raising an error. This function is for callers
// that can do without the index.
Relation open_job_index_if_good(JobIndex which);
// Raises an error if open_job_index() would raise one.
void require_job_index(JobIndex which);

// Returns the trigger epoch: a number that identifies the current definitions of the triggers on jobq.jobs that report
// changes made with plain SQL. Empty ranges (lanes/empty_ranges.h) are valid only for the epoch in which they were
// recorded. The epoch is kNoEpoch if one of these triggers is missing or disabled, or if this transaction has changed
// one of them. The triggers cannot change while another session holds the lock that open_jobs() and every write take on
// the table. A session that scans the table to record empty ranges holds this lock, and so does every session whose
// changes are not reported by a trigger.
uint64 trigger_epoch();

// These functions return the OID of the sequence of the identity column, the last value that the sequence has returned,
// and its next value.
Oid job_id_sequence();
int64 last_job_id();
int64 next_job_id();

// These functions convert a status to the value of the enum jobq.job_status, and back.
Oid stored_status(core::JobStatus status);
core::JobStatus job_status_of(Datum value);

}  // namespace jobq
