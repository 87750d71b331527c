// Jobs read by SQL, for job/jobs_table.cpp and its like: what the direct way, below it, means. Each statement runs
// under the snapshot of the open table.
#pragma once

#include "lanes/claim_key_policy.h"
#include "table/table_sql.h"

namespace jobq {

// The walk over the claimable jobs of a lane, or of one round-robin key in it, in the order in which they are claimed;
// or over the due or running jobs of the database, in the order of core::due_key or core::running_key. Read in pieces.
struct SqlWalk {
    MemoryContext memory;  // of the piece
    TupleDesc desc;
    HeapTuple *rows;
    int count;
    int at;     // the next one
    int piece;  // how many are read next; 0: there are no more
    enum Of { Lane, RoundRobinKey, Due, Running } of;
    int64 lane;
    int64 round_robin_key;
    core::ClaimKey from, to;
};

void seek_by_sql(SqlWalk *walk, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_round_robin_key_by_sql(SqlWalk *walk, int64 lane, int64 key, const core::ClaimKey &from);
void seek_due_by_sql(SqlWalk *walk, const core::ClaimKey &from, const core::ClaimKey &to);
void seek_running_by_sql(SqlWalk *walk, const core::ClaimKey &from, const core::ClaimKey &to);
// The key of the next job, as its row has it; false: there are no more.
bool next_by_sql(SqlWalk *walk, const Table &table, core::ClaimKey *key);
// Leaves that job in table.row.
void fetch_by_sql(const SqlWalk &walk, Table *table);
void end_walk(SqlWalk *walk);

// The next lane behind *lane that has claimable jobs, and the key of the first; the next round-robin key of a lane
// behind *key.
bool next_lane_by_sql(const Table &table, int64 *lane, core::ClaimKey *first);
bool next_round_robin_key_by_sql(const Table &table, int64 lane, int64 *key);

// Each leaves a job in table.row; false: there is none.
bool find_job_by_sql(Table *table, int64 id);
bool find_active_by_sql(Table *table, int64 group);
bool find_waiting_by_sql(Table *table, int64 group, int64 first_id);
// The next group behind *group in which jobs wait.
bool next_group_by_sql(const Table &table, int64 *group);

}  // namespace jobq
