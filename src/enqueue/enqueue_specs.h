// Jobs that are enqueued together and differ in anything; and what every enqueue does with a job before it enters.
#pragma once

#include "compat/pg.h"
#include "edges/dependencies.h"
#include "enqueue/admission.h"
#include "enqueue/enqueue.h"
#include "queues/scope.h"

namespace jobq {

// Checks what does not depend on the settings of the queue. Errors name the attribute. `has_keys`: the spec is for
// several jobs whose unique keys are not part of it.
void check_spec(JobSpec *spec, bool has_max_attempts, const QueueScope *scope, bool has_keys = false);
// Fills in what the queue's settings decide, under the lock on jobq.jobs, so that max_depth and max_attempts are those
// that were committed before the lock was granted.
void fill_from_queue(JobSpec *spec, bool has_max_attempts);

// One without a key, into the open table.
int64 insert_one(JobsTable *jobs, const JobSpec &spec, TimestampTz now);
// What a job depends on; `number` is its place among the arguments.
NewDependent dependent_of(const JobSpec &spec, int64 id, int number);
Newcomer newcomer_of(const JobSpec &spec, text *unique_key);

// What became of one: its id, or that of the job that has its key.
struct Enqueued {
    int64 id;
    bool is_new;
    bool is_over;  // of one that is not new: it has finished and keeps the key; it may be gone
};
// Holds those of these that were there before until the transaction ends: waits for who is just deleting one. 40001
// when one is gone that had not finished when its key was looked at. `over`, with room for all, gets the ids of those
// that have finished and are there, in their order; returns how many. Inside with_spi(), with the owner's rights.
int hold_known(const Enqueued *enqueued, int count, Datum *over);

// Enqueues checked and filled jobs; in their order. *number is, while an error is raised, the place of the job that it
// is about, from 1; 0: it is about none of them alone.
Enqueued *enqueue_specs(const JobSpec *specs, int count, const QueueScope *scope, TimestampTz now, int *number);

// The same for those that a JSON array describes, at most `limit`: what jobq_enqueue_jobs is given, as argument
// "specs". 22023 and 54000 for what is none, and whatever the checks of one raise; the context names the element.
Enqueued *enqueue_json(const Jsonb *specs, int limit, const QueueScope *scope, TimestampTz now, int *count);

}  // namespace jobq
