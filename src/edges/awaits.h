// Adds and reads edges of kind awaits, which lead from a job to the jobs that it awaits in its current wait. When a job
// ends, its awaiters are found by their active edges (groups/edge_ends.h). If a job waits for any of its targets, all
// of its edges are active. If it waits for all of its targets, only one edge is active, which leads to a target that
// has not ended.
//
// The functions are called inside with_spi(), with the owner's rights.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "queues/scope.h"

namespace jobq {

// The job that awaits others. In queues that its worker has no access to, it can only see the jobs that it has spawned.
struct Awaiter {
    int64 job;
    text *queue;
    text *group_key;  // nullptr: none
    const QueueScope *scope;
};
// Returns rows (id, status, whether the job is in the same group), in the order of `ids` (bigint[]). The status is NULL
// if the awaiter can see no such job. `snapshot`: see read().
Rows read_awaited_jobs(const Awaiter &awaiter, Datum ids, Snapshot snapshot);
// Returns the results of these jobs: a jsonb array of {job_id, status, result}, in the order of the ids. The result of
// a completed job that was deleted while other jobs needed it is still available; the status and result of other
// deleted jobs are null.
Datum read_results(const Awaiter &awaiter, Datum ids, Snapshot snapshot);

// Makes the job await these jobs (bigint[]) and no others. Only the edge to the job
// `active` is active or, if `active` is 0, all edges.
void await_jobs(int64 job, Datum ids, int64 active);
// Delete the waits of one job or several jobs that no longer wait. The last function deletes them only if the job has
// no step that awaits other jobs.
void forget_waits(int64 job);
void forget_waits(Datum *jobs, int count);
void forget_waits_without_step(int64 job);

}  // namespace jobq
