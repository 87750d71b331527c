// Reads and writes jobq.jobs in one of two ways, which the caller need not know. SQL (table/table_sql.h,
// row/jobs_sql.h) defines the meaning. Direct access (table/table.h, row/ready_scan.h) is an optimization for tables to
// which nothing is attached that needs SQL.
#pragma once

#include "compat/pg.h"
#include "core/claim_key.h"
#include "row/job_columns.h"
#include "row/jobs_sql.h"
#include "row/ready_scan.h"
#include "table/table.h"

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

// The open table and its scans.
struct JobsTable {
    Table table;
    Relation ids;  // the primary key
    IndexScanDesc by_id;
    struct IndexFetchTableData *by_place;  // see remember_place()
    BlockNumber block_count;               // 0: not looked up yet
    // jobq.attempts; opened when needed
    Relation attempts;
    Relation attempts_index;
    IndexScanDesc attempts_by_job;
    TupleTableSlot *attempt;
    bool no_attempts;  // jobq.attempts was empty when it was opened
    ReadyScan ready;   // for direct access
    SqlWalk walk;      // for access by SQL
};

// Locks jobq.jobs in ROW EXCLUSIVE mode, which every change of a job requires. A call that reads the settings of a
// queue takes this lock first, so that it sees all settings that were committed before the lock was granted.
void lock_jobs_table();
// Takes the same lock if it is free. Returns false if the call would have to wait, for example for CREATE INDEX.
bool try_lock_jobs_table();

// Opens jobq.jobs for changes until close_jobs(). Raises 55000 if the table is not as this library expects, and 0A000
// if jobq.access demands direct access but the table needs SQL. `jobs` must not move in memory until then.
void open_jobs(JobsTable *jobs);
void close_jobs(JobsTable *jobs);

// Does the same for callers that must not fail because of user code and can leave the work to another process. Returns
// true only if rows are accessed directly and no user function or constraint takes part in changes. Otherwise nothing
// is open. Also returns false if this transaction, which has already locked the table for changes, has changed its
// definition.
bool open_jobs_if_quiet(JobsTable *jobs);

// Does the same for reading only, also on a standby. Later reads use the active snapshot.
void open_jobs_for_reading(JobsTable *jobs);
void close_jobs_for_reading(JobsTable *jobs);

// How rows are accessed now, and why. `refused`: jobq.access demands direct access, so every call fails for this
// reason.
struct JobsAccess {
    bool by_sql, refused;
    const char *reason;
};
JobsAccess jobs_access();

// Opens an index of the open table for reading. Raises 55000 if the index was dropped, has another definition, or lacks
// jobs, for example after a failed CREATE INDEX CONCURRENTLY. With direct access, the indexes are known to be good.
Relation open_job_index(JobIndex which);
// Does the same, but returns nullptr if the index is not good, for callers that have an alternative.
Relation open_job_index_if_good(JobIndex which);
// Raises the error that open_job_index() would raise.
void require_job_index(JobIndex which);
// Raises 55000 if jobq's columns are not as the library expects. For callers that have only a row of the table.
void require_job_columns();
// Checks what open_jobs() requires, but only takes a reader's lock.
void require_usable_jobs();

// Returns the epoch of the empty ranges (lanes/empty_ranges.h), as this session sees it now. It changes with each
// change of the triggers on jobq.jobs that report manual changes. It is kNoEpoch if one of these triggers is missing or
// disabled, or if this transaction has changed one. The triggers cannot change while another session writes to the
// table or has opened it with open_jobs(). A session that reads the table for empty ranges holds this lock, and so does
// every change that no trigger reports.
uint64 trigger_epoch();

// Takes a new snapshot (READ COMMITTED), or uses the transaction's snapshot, for the following reads. Must be called
// first.
void renew_snapshot(JobsTable *jobs);

// Stores the version of a job that the snapshot sees in table.row. Returns false if there is none.
bool find_job(JobsTable *jobs, int64 id);

// Remembers the place of table.changed, the new version of a job that this session has just claimed. The session will
// probably report on the job soon, so find_job() first looks at this place, which saves the index lookup. The place is
// only a hint: find_job() uses the row there only if it has the right id and the snapshot sees it.
void remember_place(const JobsTable &jobs, int64 id);

// Returns whether jobq.attempts may have rows of the job under the same snapshot. Costs almost nothing while the table
// is empty.
bool may_have_attempts(JobsTable *jobs, int64 id);

// Sets *lane to the next lane after *lane that has entries in the claim index, claimable or not. Returns false if there
// is none.
bool next_lane(JobsTable *jobs, int64 *lane);

// Steps through the given lanes that have entries in the claim index. The cost is proportional to the number of given
// lanes or of lanes with entries, whichever is smaller, because each list is skipped up to the next element of the
// other.
struct LaneWalk {
    const int64 *lanes;  // in the order of their ids
    int count;
    int at;
};
// Returns the next such lane and the key of its first entry, claimable or not. Returns false at the end.
bool next_lane_with_entries(JobsTable *jobs, LaneWalk *walk, int64 *lane, core::ClaimKey *first);

// Positions the scan at the first entry of a lane in the claim index at or after `from`. `expected` is how far the
// caller is likely to go (row/ready_scan.h).
void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected = core::kLastKey);
// Does the same for the entries up to `to`. The scan may return some entries after `to`.
void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to);
// Does the same in the index of queues with round_robin, for the jobs of one round-robin key.
void seek_round_robin_key(JobsTable *jobs, int64 lane, int64 key, const core::ClaimKey &from);
// Sets *key to the next round-robin key of the lane after *key that has entries, claimable or not. Returns false if
// there is none.
bool next_round_robin_key(JobsTable *jobs, int64 lane, int64 *key);
// Position the scan at the first entry at or after `from` of a job that becomes claimable later, or of a rescue-indexed
// job, in the order of core::due_key or core::running_key. The scan ends after `to`.
void seek_due(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
// Sets *key to the key of the next entry. Returns false at the end of the lane or range. The entry may belong to a row
// version that no snapshot sees any more.
bool next_ready(JobsTable *jobs, core::ClaimKey *key);
// Stores the job of this entry in table.row. Returns false if the snapshot does not see one.
bool fetch_ready(JobsTable *jobs);

// Return the sequence of the identity column, the last value that it has given, and its next value.
Oid job_id_sequence();
int64 last_job_id();
int64 next_job_id();

// Convert a status to the value of the enum jobq.job_status, and back.
Oid stored_status(core::JobStatus status);
core::JobStatus job_status_of(Datum value);

// Returns the value of a column in a row of the table.
inline Datum job_value(TupleTableSlot *row, JobAttribute column, bool *is_null) {
    *is_null = true;
    return column.exists() ? slot_getattr(row, column.number, is_null) : Datum(0);
}
inline Datum job_value(const JobsTable &jobs, JobAttribute column, bool *is_null) {
    return job_value(jobs.table.row, column, is_null);
}
// Returns the value of a column that is NOT NULL.
inline Datum job_value(const JobsTable &jobs, JobColumn column) {
    bool is_null;
    return column_of(jobs.table, column, &is_null);
}
inline bool job_has(const JobsTable &jobs, JobAttribute column) {
    bool is_null;
    job_value(jobs, column, &is_null);
    return !is_null;
}
// Does the same as set_column(TupleTableSlot *, AttrNumber, Datum).
inline void set_column(TupleTableSlot *row, LaterJobColumn column, Datum value) {
    const JobAttribute attribute = column;
    if (attribute.exists()) set_column(row, attribute.number, value);
}

// Returns whether the job in table.row has this status.
inline bool has_status(const JobsTable &jobs, core::JobStatus status) {
    return DatumGetObjectId(job_value(jobs, kJobStatus)) == stored_status(status);
}

}  // namespace jobq
