// Adds and reads edges of kind awaits. Such an edge leads from a waiting job, the awaiter, to a target, which is a job
// that the awaiter currently awaits. When a job ends, its awaiters are found by their active edges
// (groups/edge_ends.h). If an awaiter waits until any of its targets has ended, all of its edges are active. If it
// waits until all of its targets have ended, only one edge is active: an edge to a target that has not ended.
//
// Call the functions inside with_spi(), with the owner's privileges.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "queues/scope.h"

namespace jobq {

// The job that awaits other jobs. The awaiter can see the jobs that it has spawned and, in addition, all jobs in queues
// to which its worker has access.
struct Awaiter {
    int64 job;
    text *queue;
    text *group_key;  // nullptr: none
    const QueueScope *scope;
};
// Returns one row per id, in the order of `ids` (bigint[]), with three columns: the id, the status of the job, and
// whether the job is in the awaiter's group. The status is NULL if the awaiter cannot see a job with this id.
// `snapshot` has the same meaning as in read().
Rows read_awaited_jobs(const Awaiter &awaiter, Datum ids, Snapshot snapshot);
// Returns the results of these jobs: a jsonb array of {job_id, status, result}, in the order of the ids. If a completed
// job was deleted while other jobs needed it, its result is still available. The status and result of other deleted
// jobs are null.
Datum read_results(const Awaiter &awaiter, Datum ids, Snapshot snapshot);

// Makes the job await these jobs (bigint[]) and no other jobs. If `active` is 0, all edges are active; otherwise, only
// the edge to the job `active` is active.
void await_jobs(int64 job, Datum ids, int64 active);
// These functions delete the waits of one or more jobs that no longer wait. forget_waits_without_step() deletes the
// waits of a job only if the job has no step that awaits other jobs.
void forget_waits(int64 job);
void forget_waits(Datum *jobs, int count);
void forget_waits_without_step(int64 job);

}  // namespace jobq
