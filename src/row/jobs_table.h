// Reads and writes jobq.jobs in one of two ways, which the caller need not know. SQL (table/table_sql.h,
// row/jobs_sql.h) defines the meaning. Direct access (table/table.h, row/ready_scan.h) is an optimization that is used
// if users have attached nothing to the table that needs SQL.
#pragma once

#include "compat/pg.h"
#include "core/claim_key.h"
#include "row/job_columns.h"
#include "row/jobs_catalog.h"
#include "row/jobs_sql.h"
#include "row/ready_scan.h"
#include "table/table.h"

namespace jobq {

// The open table and its scans.
struct JobsTable {
    Table table;
    Relation ids;  // the primary key
    IndexScanDesc by_id;
    struct IndexFetchTableData *by_recent_tid;  // see remember_tid()
    BlockNumber block_count;                    // 0: not looked up yet
    // jobq.attempts; opened when needed
    Relation attempts;
    Relation attempts_index;
    IndexScanDesc attempts_by_job;
    TupleTableSlot *attempt;
    bool no_attempts;  // jobq.attempts was empty when it was opened
    ReadyScan ready;   // for direct access
    SqlWalk walk;      // for access by SQL
};

// Opens jobq.jobs for changes until close_jobs(). `jobs` must not move in memory until then. Raises 55000 if the table
// is not as this library expects, and 0A000 if jobq.access demands direct access but the table needs SQL.
void open_jobs(JobsTable *jobs);
void close_jobs(JobsTable *jobs);

// Opens the table only if user code cannot make a change fail. For callers that can leave the work to another process.
// Returns true only if rows are accessed directly and changes call no user function and check no user's constraint.
// Otherwise the table is not opened. Also returns false if this transaction has changed the definition of the table.
// The transaction must already have locked the table for changes.
bool open_jobs_if_quiet(JobsTable *jobs);

// Opens the table only for reading, which also works on a standby. Later reads use the active snapshot.
void open_jobs_for_reading(JobsTable *jobs);
void close_jobs_for_reading(JobsTable *jobs);

// Raises the errors that open_jobs() would raise, but locks the table only for reading.
void require_usable_jobs();

// Takes a new snapshot in READ COMMITTED, or else uses the transaction's snapshot, for the following reads. Call it
// before the first read.
void renew_snapshot(JobsTable *jobs);

// Stores in table.row the version of the job that the snapshot sees. Returns false if there is none.
bool find_job(JobsTable *jobs, int64 id);

// Remembers the ctid of table.changed, the new version of a job that this session has just claimed. The session will
// probably report on the job soon, so find_job() first fetches the row with this ctid, which saves the index lookup.
// The ctid is only a hint: find_job() uses the row only if it has the right id and the snapshot sees it.
void remember_tid(const JobsTable &jobs, int64 id);

// Returns whether jobq.attempts may have rows of the job, according to the snapshot. Costs almost nothing while the
// table is empty.
bool may_have_attempts(JobsTable *jobs, int64 id);

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
