// jobq.jobs as the claim, the completion and the heartbeat see it: by the numbers of its columns, and in one of two
// ways, which they need not know. By SQL (table/table_sql.h, row/jobs_sql.h), which is what they mean, or directly,
// below it (table/table.h, row/ready_scan.h), an optimisation for tables to which nothing is attached that takes SQL.
#pragma once

#include "compat/pg.h"
#include "core/claim_key.h"
#include "row/job_columns.h"
#include "row/jobs_sql.h"
#include "row/ready_scan.h"
#include "table/table.h"

namespace jobq {

// The indexes that the library reads itself.
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

// The table, and what a session has to know of it: looked up again when the catalogue changes.
struct JobsTable {
    Table table;
    Relation ids;  // the primary key
    IndexScanDesc by_id;
    struct IndexFetchTableData *by_place;  // see remember_place
    BlockNumber block_count;               // 0: not asked yet
    // jobq.attempts, when it has been asked for.
    Relation attempts;
    Relation attempts_index;
    IndexScanDesc attempts_by_job;
    TupleTableSlot *attempt;
    bool no_attempts;  // of any job, when this was opened
    ReadyScan ready;   // directly
    SqlWalk walk;      // by SQL
};

// Locks jobq.jobs in ROW EXCLUSIVE mode, which every change of a job requires. A call that reads the settings of a
// queue takes this lock first, so that it sees all settings that were committed before the lock was granted.
void lock_jobs_table();
// Takes the same lock if it is free. Returns false if the call would have to wait, for example for CREATE INDEX.
bool try_lock_jobs_table();

// Opens jobq.jobs for changes; close_jobs ends it. 55000 when the table is not the one this library knows; 0A000 when
// jobq.access asks for the direct way and that may not be taken. `jobs` must stay where it is until then.
void open_jobs(JobsTable *jobs);
void close_jobs(JobsTable *jobs);

// The same for what must not fail because of others and can be left to somebody else. True only if the rows go directly
// and no function and no constraint of anybody's has a say when they change; else nothing is open. False also where
// this transaction, which has the table locked for changes already, has just changed the table itself.
bool open_jobs_if_quiet(JobsTable *jobs);

// The same for reading only, also on a standby: what follows sees what the active snapshot sees.
void open_jobs_for_reading(JobsTable *jobs);
void close_jobs_for_reading(JobsTable *jobs);

// Which way the rows go now, and why; `refused`: it is the direct way by jobq.access, and every call fails for that
// reason.
struct JobsAccess {
    bool by_sql, refused;
    const char *reason;
};
JobsAccess jobs_access();

// Opens an index of the open table for reading. 55000 when somebody has dropped it, when it is not as we made it, or
// when it lacks jobs: a CREATE INDEX CONCURRENTLY, say, that has failed. Directly there is none of that.
Relation open_job_index(JobIndex which);
// The same for who knows another way: nullptr then.
Relation open_job_index_if_good(JobIndex which);
// Raises what open_job_index would raise.
void require_job_index(JobIndex which);
// 55000 when jobq's columns are not as the library knows them: for who has a row of the table.
void require_job_columns();
// What open_jobs requires, under no more than a reader's lock.
void require_usable_jobs();

// The epoch of the empty ranges (lanes/empty_ranges.h) as this session sees it now: another one whenever the triggers
// of jobq.jobs that tell of changes by hand have been changed. kNoEpoch when one of them is missing or switched off, or
// this very transaction has changed them. The triggers cannot change while somebody else writes to the table or has
// opened it with open_jobs: whoever refreshes holds that lock, and so does a change that nobody is told of.
uint64 trigger_epoch();

// What follows sees what is committed now (READ COMMITTED), or the transaction's snapshot. Must be called first.
void renew_snapshot(JobsTable *jobs);

// Leaves the newest version of a job that the snapshot sees in table.row. False when there is none.
bool find_job(JobsTable *jobs, int64 id);

// table.changed is the new version of a job that this session has claimed: most likely it will report on it soon, and
// find_job then looks there first, which spares it the way through the index. A guess: only a row with the right id
// that the snapshot sees is believed.
void remember_place(const JobsTable &jobs, int64 id);

// Whether jobq.attempts may have rows of the job, by the same snapshot. Next to free while that table is empty.
bool may_have_attempts(JobsTable *jobs, int64 id);

// The next lane behind *lane that has entries in the claim index, of whatever jobs; false when there is none.
bool next_lane(JobsTable *jobs, int64 *lane);

// Steps through those of some lanes that have entries there. The cost follows the number of lanes with entries, or that
// of the lanes given if it is smaller: either list is skipped through to where the other one goes on.
struct LaneWalk {
    const int64 *lanes;  // in the order of their ids
    int count;
    int at;
};
// The next such lane, and the key of its first entry, of whatever job; false at the end.
bool next_lane_with_entries(JobsTable *jobs, LaneWalk *walk, int64 *lane, core::ClaimKey *first);

// Goes to the first entry of a lane in the claim index at or behind `from`; `expected`: how far the caller is likely to
// go (row/ready_scan.h).
void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from,
                const core::ClaimKey &expected = core::kLastKey);
// The same for the entries up to `to` only, and perhaps some more.
void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to);
// The same in the index of queues with round_robin, for the jobs of one round-robin key.
void seek_round_robin_key(JobsTable *jobs, int64 lane, int64 key, const core::ClaimKey &from);
// The next round-robin key behind *key of which the lane has entries, of whatever jobs; false when there is none.
bool next_round_robin_key(JobsTable *jobs, int64 lane, int64 *key);
// Goes to the first entry of a job that becomes claimable later, or of a rescue-indexed job, at or after `from`, in the
// order of core::due_key or core::running_key; reads no further than `to`.
void seek_due(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to);
// The next entry's key; false at the end of the lane or the range. The entry may be of a version that nobody sees any
// more.
bool next_ready(JobsTable *jobs, core::ClaimKey *key);
// Leaves the job of that entry in table.row. False when the snapshot sees none.
bool fetch_ready(JobsTable *jobs);

// The sequence of the identity column, the value that it has given last, and its next value.
Oid job_id_sequence();
int64 last_job_id();
int64 next_job_id();

// The value of enum jobq.job_status that stands for a status, and back.
Oid stored_status(core::JobStatus status);
core::JobStatus job_status_of(Datum value);

// The value of a column of any row of the table.
inline Datum job_value(TupleTableSlot *row, JobAttribute column, bool *is_null) {
    *is_null = true;
    return column.exists() ? slot_getattr(row, column.number, is_null) : Datum(0);
}
inline Datum job_value(const JobsTable &jobs, JobAttribute column, bool *is_null) {
    return job_value(jobs.table.row, column, is_null);
}
// The value of a column that is NOT NULL.
inline Datum job_value(const JobsTable &jobs, JobColumn column) {
    bool is_null;
    return column_of(jobs.table, column, &is_null);
}
inline bool job_has(const JobsTable &jobs, JobAttribute column) {
    bool is_null;
    job_value(jobs, column, &is_null);
    return !is_null;
}
// The same as set_column(TupleTableSlot *, AttrNumber, Datum).
inline void set_column(TupleTableSlot *row, LaterJobColumn column, Datum value) {
    const JobAttribute attribute = column;
    if (attribute.exists()) set_column(row, attribute.number, value);
}

// Whether the job in table.row has that status.
inline bool has_status(const JobsTable &jobs, core::JobStatus status) {
    return DatumGetObjectId(job_value(jobs, kJobStatus)) == stored_status(status);
}

}  // namespace jobq
