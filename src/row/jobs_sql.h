// Reads jobs with SQL, for row/jobs_table.cpp and similar callers, with the same meaning as the direct access below
// SQL. Each statement runs under the snapshot of the open table.
#pragma once

#include "core/claim_key.h"
#include "table/table_sql.h"

namespace jobq {

// A walk, read in pieces, over the claimable jobs of a lane or of one round-robin key in it, in the order in which they
// are claimed; or over the due or running jobs of the database, in the order of core::due_key or core::running_key.
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
// Sets *key to the key of the next job, as its row has it. Returns false if there are no more jobs.
bool next_by_sql(SqlWalk *walk, const Table &table, core::ClaimKey *key);
// Stores the current job in table.row.
void fetch_by_sql(const SqlWalk &walk, Table *table);
void end_walk(SqlWalk *walk);

// Find the next lane after *lane that has claimable jobs, with the key of its first job, or the next round-robin key of
// a lane after *key. Return false if there is none.
bool next_lane_by_sql(const Table &table, int64 *lane, core::ClaimKey *first);
bool next_round_robin_key_by_sql(const Table &table, int64 lane, int64 *key);

// Store a job in table.row. Return false if there is none.
bool find_job_by_sql(Table *table, int64 id);
bool find_active_by_sql(Table *table, int64 group);
bool find_waiting_by_sql(Table *table, int64 group, int64 first_id);
// Finds the next group after *group in which jobs wait.
bool next_group_by_sql(const Table &table, int64 *group);

}  // namespace jobq
