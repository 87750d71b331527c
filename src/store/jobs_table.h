// jobq.jobs as the claim, the completion and the heartbeat see it: below SQL (pg/table.h), by the numbers of its
// columns.
#pragma once

#include "core/claim_key.h"
#include "pg/pg.h"
#include "pg/table.h"

namespace jobq {

// The columns of jobq.jobs, in the order in which src/sql/20_tables.sql declares them; checked when a session opens the
// table first. An upgrade may add columns at the end.
enum JobColumn : AttrNumber {
    kJobId = 1,
    kJobCreatedAt,
    kJobLane,
    kJobMaxAttempts,
    kJobVersion,
    kJobPriority,
    kJobQueue,
    kJobKind,
    kJobPayload,
    kJobMetadata,
    kJobRequires,
    kJobHeartbeatTimeout,
    kJobMaxRuntime,
    kJobUniqueKey,
    kJobGroupKey,
    kJobConcurrencyKey,
    kJobRunAt,
    kJobReadyAt,
    kJobDueAt,
    kJobStatus,
    kJobAttempts,
    kJobLostAttempts,
    kJobLease,
    kJobClaimXid,
    kJobStartedAt,
    kJobLastHeartbeat,
    kJobFinishedAt,
    kJobLeaseTimeout,
    kJobCancelRequestedAt,
    kJobWatched,
    kJobWorkerId,
    kJobError,
    kJobProgress,
    kJobResult,
};
constexpr int kJobColumns = kJobResult;

// The table, and what a session has to know of it: looked up again when the catalogue changes.
struct JobsTable {
    Table table;
    Relation ids;    // the primary key
    Relation ready;  // the claim index
    IndexScanDesc by_id;
    IndexScanDesc by_claim_key;
    // The key of the claim index, (lane, (priority, ready_at, id)); the scan points into it.
    ScanKeyData lane_key[2];
    ScanKeyData place_key[3];
};

// Opens jobq.jobs for changes; close_jobs ends it. 55000 when the table is not the one this library knows.
// `jobs` must stay where it is until then.
void open_jobs(JobsTable *jobs);
void close_jobs(JobsTable *jobs);

// The same for reading only, also on a standby: what follows sees what the active snapshot sees.
void open_jobs_for_reading(JobsTable *jobs);
void close_jobs_for_reading(JobsTable *jobs);

// The epoch of the marks (shared/marks.h) as this session sees it now: another one whenever the triggers of jobq.jobs
// that tell of changes by hand have been changed. kNoMarks when one of them is missing or switched off, or this very
// transaction has changed them. The triggers cannot change while somebody else writes to the table or has opened
// it with open_jobs: whoever learns holds that lock, and so does a change that nobody is told of.
uint64 marks_epoch();

// What follows sees what is committed now (READ COMMITTED), or the transaction's snapshot. Must be called first.
void renew_snapshot(JobsTable *jobs);

// Leaves the newest version of a job that the snapshot sees in table.row. False when there is none.
bool find_job(JobsTable *jobs, int64 id);

// Goes to the first entry of a lane in the claim index at or behind `from`.
void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from);
// The next entry's key; false at the end of the lane. The entry may be of a version that nobody sees any more.
bool next_ready(JobsTable *jobs, core::ClaimKey *key);
// Leaves the job of that entry in table.row. False when the snapshot sees none.
bool fetch_ready(JobsTable *jobs);

// The next value of the identity column.
int64 next_job_id();

// The values of enum jobq.job_status.
Oid scheduled_status();
Oid pending_status();
Oid processing_status();
Oid completed_status();
// What a value of it stands for.
core::JobStatus job_status_of(Datum value);

inline Datum job_value(const JobsTable &jobs, JobColumn column, bool *is_null) {
    return column_of(jobs.table, column, is_null);
}
// The value of a column that is NOT NULL.
inline Datum job_value(const JobsTable &jobs, JobColumn column) {
    bool is_null;
    return column_of(jobs.table, column, &is_null);
}
inline bool job_has(const JobsTable &jobs, JobColumn column) {
    bool is_null;
    column_of(jobs.table, column, &is_null);
    return !is_null;
}

}  // namespace jobq
