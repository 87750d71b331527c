// Reads and writes jobq.jobs in one of two ways, which the caller need not know. SQL (table/table_sql.h,
// row/jobs_sql.h) defines the meaning. Direct access (table/table.h, row/ready_scan.h) is an optimization for tables to
// which nothing is attached that needs SQL.
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

// Checks what open_jobs() requires, but only takes a reader's lock.
void require_usable_jobs();

// Takes a new snapshot (READ COMMITTED), or uses the transaction's snapshot, for the following reads. Must be called
// first.
void renew_snapshot(JobsTable *jobs);

// Stores the version of a job that the snapshot sees in table.row. Returns false if there is none.
bool find_job(JobsTable *jobs, int64 id);

// Remembers the place of table.changed, the new version of a job that this session has just claimed. The session will
// probably report on the job soon, so find_job() first looks at this place, which saves the index lookup. The place is
// only a hint: find_job() uses the row there only if it has the right id and the snapshot sees it.
void remember_tid(const JobsTable &jobs, int64 id);

// Returns whether jobq.attempts may have rows of the job under the same snapshot. Costs almost nothing while the table
// is empty.
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
