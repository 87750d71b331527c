// Reads and writes jobq.jobs either with SQL or directly; callers need not know which. SQL (table/table_sql.h,
// row/jobs_sql.h) defines the meaning of the functions. Direct access (table/table.h, row/ready_scan.h) is an
// optimization that is used only if users have attached nothing to the table that requires SQL.
#pragma once

#include "compat/pg.h"
#include "core/claim_key.h"
#include "row/job_columns.h"
#include "row/jobs_catalog.h"
#include "row/jobs_sql.h"
#include "row/ready_scan.h"
#include "table/table.h"

namespace jobq {

// A table that can contain rows of jobs, and its index on the job, opened when needed.
struct JobRows {
    Relation table, index;
    IndexScanDesc by_job;
    TupleTableSlot *row;
    bool none;  // the table was empty when it was opened
};

// The open table and its scans.
struct JobsTable {
    Table table;
    Relation ids;  // the primary key
    IndexScanDesc by_id;
    struct IndexFetchTableData *by_recent_tid;  // see remember_tid()
    BlockNumber block_count;                    // 0: not looked up yet
    JobRows attempts, log_lines;
    ReadyScan ready;   // for direct access
    SqlWalk walk;      // for access with SQL
    bool met_expired;  // fetch_claimable() has found a job that has expired
};

// Opens jobq.jobs for changes until close_jobs(). `jobs` must not move in memory until then. Raises 55000 if the table
// is not as this library expects, and 0A000 if jobq.access requires direct access but the table requires access with
// SQL.
void open_jobs(JobsTable *jobs);
void close_jobs(JobsTable *jobs);

// Opens the table like open_jobs(), but only if no user code can make a change fail. This is the case if rows are
// accessed directly, and changes call no user-defined functions and check no user-defined constraints. Otherwise,
// returns false without opening the table, so that the caller can leave the work to another process. Also returns false
// if this transaction has changed the definition of the table. The transaction must already have locked the table for
// changes.
bool open_jobs_if_quiet(JobsTable *jobs);

// Opens the table only for reading, which also works on a standby. Later reads use the active snapshot.
void open_jobs_for_reading(JobsTable *jobs);
void close_jobs_for_reading(JobsTable *jobs);

// Raises the errors that open_jobs() would raise, but locks the table only for reading.
void require_usable_jobs();

// Sets the snapshot for the following reads: a new snapshot in READ COMMITTED, and the transaction's snapshot in
// REPEATABLE READ and above. Must be called before the first read.
void renew_snapshot(JobsTable *jobs);

// Stores in table.row the version of the job that the snapshot sees. Returns false if the snapshot does not see the
// job.
bool find_job(JobsTable *jobs, int64 id);

// Remembers the ctid of table.changed, the new version of a job that this session has just claimed. The session will
// probably report on the job soon, so find_job() first fetches the row with this ctid, which saves the index lookup.
// The ctid is only a hint: find_job() uses the row only if it has the right id and the snapshot sees it.
void remember_tid(const JobsTable &jobs, int64 id);

// Returns false if, according to the snapshot, jobq.attempts and jobq.log_lines certainly contain no rows of the job.
// The check costs almost nothing while the tables are empty.
bool may_have_history(JobsTable *jobs, int64 id);

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
// Returns the array in the column, or nullptr for NULL.
inline ArrayType *array_in(const JobsTable &jobs, JobColumn column) {
    return job_has(jobs, column) ? DatumGetArrayTypeP(job_value(jobs, column)) : nullptr;
}
// Sets the column in the row, or does nothing if the table does not have the column.
inline void set_column(TupleTableSlot *row, LaterJobColumn column, Datum value) {
    const JobAttribute attribute = column;
    if (attribute.exists()) set_column(row, attribute.number, value);
}

// Returns whether the job in table.row has this status.
inline bool has_status(const JobsTable &jobs, core::JobStatus status) {
    return DatumGetObjectId(job_value(jobs, kJobStatus)) == stored_status(status);
}

}  // namespace jobq
