// Which jobs await the end of which others (jobq.job_waits): those of the wait that a job is in, no earlier ones. By
// the rows that are active a job is found when another has ended (groups/job_ends.h): of one that awaits any of them
// each is, of one that awaits all of them one that has not ended. What is awaited is kept until who awaits it has
// finished.
//
// All of it inside with_spi(), with the owner's rights.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "queues/scope.h"

namespace jobq {

// False while no job awaits another: next to free, also where there is no such table.
bool any_job_wait();

// Who awaits: of other queues than its worker's it sees the jobs that it has spawned.
struct Awaiter {
    int64 job;
    text *queue;
    text *group_key;  // nullptr: none
    const QueueScope *scope;
};
// Rows (id, status, whether it is of the same group), in the order of `ids` (bigint[]); a NULL status: there is none
// that it can see. `snapshot`: see read().
Rows read_awaited_jobs(const Awaiter &awaiter, Datum ids, Snapshot snapshot);
// What they have come to: a jsonb array of {job_id, status, result}, in the order of the ids. A completed job that
// was deleted while it was needed has left its result; of others that are gone both are null.
Datum read_results(const Awaiter &awaiter, Datum ids, Snapshot snapshot);

// The job awaits these (bigint[]), and no others any more. Active is `active`, or each of them: 0.
void await_jobs(int64 job, Datum ids, int64 active);
// Deletes the waits of a job that no longer waits, or is gone; of finished jobs; of a job that has no step any more by
// which it awaits others; of all jobs.
void forget_waits(int64 job);
void forget_waits_of(Datum *ids, int count);
void forget_waits_without_step(int64 job);
void forget_all_waits();
// Moves the waits of a job that gets another id.
void move_waits(int64 from, int64 to);

}  // namespace jobq
