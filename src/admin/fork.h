// Enqueues copies of jobs, for jobq_fork. Call the function inside with_spi(), with the owner's privileges.
#pragma once

#include "compat/pg.h"
#include "core/life.h"
#include "queues/scope.h"

namespace jobq {

// Enqueues a copy of a job into the job's queue or, for a dead letter, into the queue from which it came. The copy has
// the results of the steps that were saved before `step`, or of all steps if `step` is nullptr. Returns the id of the
// copy, or no value if the job does not exist or its home queue is not in scope. Raises 22023 if the job has no such
// step, and the errors of an enqueue.
core::OptInt64 fork_job(int64 id, text *step, const QueueScope *scope, TimestampTz now);

}  // namespace jobq
