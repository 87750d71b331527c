// Reads jobs with SQL when they cannot be read directly. The functions correspond to the functions for direct access.
// Each statement runs under the snapshot of the open table.
#pragma once

#include "core/claim_key.h"
#include "table/table_sql.h"

namespace jobq {

// An iteration over jobs, which are read in batches ("pieces"): the claimable jobs of a lane, or of one round-robin key
// in a lane, in the order in which they are claimed; or the due or running jobs of the database, in the order of
// core::due_key() or core::running_key().
struct SqlWalk {
    MemoryContext memory;  // memory of the current piece
    TupleDesc desc;
    HeapTuple *rows;
    int count;
    int at;     // index of the next row
    int piece;  // number of jobs to read next; 0: there are no more
    enum Of { Lane, RoundRobinKey, Due, Running } of;
    int64 lane;
    int64 round_robin_key;
    core::ClaimKey from, to;
};

// Begins an iteration from `from` to `to`. Due and Running need no lane, and only RoundRobinKey needs a round-robin
// key.
void seek_by_sql(SqlWalk *walk, SqlWalk::Of of, const core::ClaimKey &from, const core::ClaimKey &to, int64 lane = 0,
                 int64 round_robin_key = 0);
// Sets *key to the key of the next job, computed from its row. Returns false if there are no more jobs.
bool next_by_sql(SqlWalk *walk, const Table &table, core::ClaimKey *key);
// Stores the row of the current job in table.row.
void fetch_by_sql(const SqlWalk &walk, Table *table);
void end_walk(SqlWalk *walk);

// next_lane_by_sql() advances *lane to the next lane that has claimable jobs and sets *first to the key of the first of
// these jobs. next_round_robin_key_by_sql() advances *key to the next round-robin key that has claimable jobs in the
// lane. Both functions return false if there is no such lane or key.
bool next_lane_by_sql(const Table &table, int64 *lane, core::ClaimKey *first);
bool next_round_robin_key_by_sql(const Table &table, int64 lane, int64 *key);

// These functions store the row of a job in table.row: the job with this id; the active job of a group; or, among the
// waiting jobs of a group, the first job whose id is at least `first_id`. They return false if there is no such job.
bool find_job_by_sql(Table *table, int64 id);
bool find_active_by_sql(Table *table, int64 group);
bool find_waiting_by_sql(Table *table, int64 group, int64 first_id);
// Advances *group to the next group that has waiting jobs. Returns false if there is no such group.
bool next_group_by_sql(const Table &table, int64 *group);

}  // namespace jobq
