// Enqueues jobs with different attributes in one call. Also checks the attributes for every other function that
// enqueues jobs.
#pragma once

#include "compat/pg.h"
#include "edges/dependencies.h"
#include "enqueue/admission.h"
#include "enqueue/enqueue.h"
#include "queues/scope.h"

namespace jobq {

// Checks the attributes that do not depend on the queue's settings. Error messages name the attribute. `has_keys` means
// that the spec is for several jobs whose unique keys are passed separately. If the spec names a batch, joins the
// batch; `held_batch` as for join_batch().
void check_spec(JobSpec *spec, bool has_max_attempts, const QueueScope *scope, bool has_keys = false,
                int64 held_batch = 0);
// Raises 42704 if the spec names a limit that does not exist or does not include the queue. Call it for a spec that a
// caller has passed, after check_spec() and before fill_from_queue(). Jobs that jobq enqueues later, for example for a
// schedule, do not need the limits to exist.
void require_limits(const JobSpec &spec);
// Raises 22023 if the spec has both expires_at and expires_in, or if a job with this run_at could never run, because it
// would expire first.
void check_expiry(const JobSpec &spec, TimestampTz run_at);
// Sets the attributes that depend on the queue's settings, under the lock on jobq.jobs, so that the settings have the
// values that were committed before the lock was granted.
void fill_from_queue(JobSpec *spec, bool has_max_attempts);

// Inserts one job without a unique key into the open table. Returns its id.
int64 insert_one(JobsTable *jobs, const JobSpec &spec, TimestampTz now);
// Returns the dependencies of a job. `number` is the position of the job in the arguments.
NewDependent dependent_of(const JobSpec &spec, int64 id, int number);
Newcomer newcomer_of(const JobSpec &spec, text *unique_key);

// The outcome of an enqueue: the id of the new job, or of the existing job that holds the unique key.
struct Enqueued {
    int64 id;
    bool is_new;
    bool is_over;  // if not new: the job has finished and keeps the key; its row might no longer exist
};
// Locks the jobs in `enqueued` that are not new, so that they cannot be deleted until the transaction ends, and waits
// for sessions that are deleting one of them. Raises 40001 if a job that was unfinished when its key was looked up no
// longer exists. Stores the ids of the finished jobs that still exist in `over`, in ascending order, and returns their
// number; `over` must have room for `count` ids. Call it inside with_spi(), with the owner's privileges.
int hold_known(const Enqueued *enqueued, int count, Datum *over);

// Enqueues jobs for which check_spec() and fill_from_queue() have been called. Returns the outcomes in the order of the
// jobs. If an error is raised, *number is the position, from 1, of the job that caused the error, or 0 if the error is
// not about a single job.
Enqueued *enqueue_specs(const JobSpec *specs, int count, const QueueScope *scope, TimestampTz now, int *number);

// Checks and enqueues the jobs in a JSON array that has the format of argument "specs" of jobq_enqueue_jobs. Raises
// 22023 if `specs` is not such an array, 54000 if it has more than `limit` elements, and all errors that the checks of
// a job raise; the error context names the element. `held_batch` as for join_batch().
Enqueued *enqueue_json(const Jsonb *specs, int limit, const QueueScope *scope, TimestampTz now, int *count,
                       int64 held_batch = 0);

}  // namespace jobq
