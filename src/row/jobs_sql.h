// Reads jobs with SQL, for row/jobs_table.cpp and similar callers. The functions correspond to those for direct access.
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

void seek_by_sql(SqlWalk *walk, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_round_robin_key_by_sql(SqlWalk *walk, int64 lane, int64 key, const core::ClaimKey &from);
void seek_due_by_sql(SqlWalk *walk, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running_by_sql(SqlWalk *walk, const core::ClaimKey &from, const core::ClaimKey &to);
// Sets *key to the key of the next job, computed from its row. Returns false if there are no more jobs.
bool next_by_sql(SqlWalk *walk, const Table &table, core::ClaimKey *key);
// Stores the current job in table.row.
void fetch_by_sql(const SqlWalk &walk, Table *table);
void end_walk(SqlWalk *walk);

// next_lane_by_sql() finds the next lane after *lane that has claimable jobs, and the key of its first job.
// next_round_robin_key_by_sql() finds the next round-robin key after *key that has claimable jobs in a lane. Both
// return false if there is none.
bool next_lane_by_sql(const Table &table, int64 *lane, core::ClaimKey *first);
bool next_round_robin_key_by_sql(const Table &table, int64 lane, int64 *key);

// Store a job in table.row: the job with this id, the active job of a group, or the first waiting job of a group whose
// id is at least `first_id`. Return false if there is none.
bool find_job_by_sql(Table *table, int64 id);
bool find_active_by_sql(Table *table, int64 group);
bool find_waiting_by_sql(Table *table, int64 group, int64 first_id);
// Sets *group to the next group after *group that has waiting jobs. Returns false if there is none.
bool next_group_by_sql(const Table &table, int64 *group);

}  // namespace jobq
