// Makes finished jobs run again, for jobq_retry and jobq_redrive. A dead letter is moved back to its queue first. A job
// that had a unique key must get it back; this is not possible if another job has taken the key. Call these functions
// inside with_spi().
#pragma once

#include "compat/pg.h"
#include "core/life.h"
#include "queues/scope.h"
#include "row/locked_jobs.h"

namespace jobq {

// The values that a retry gives to a job.
struct RetryChanges {
    Datum payload = Datum(0);    // jsonb; Datum(0): the job keeps its payload
    core::OptInt64 run_at = {};  // none: now
    int32 max_attempts = 0;      // 0: the job keeps its max_attempts
    bool keep_steps = false;     // the job keeps its steps even if it has completed or gets a new payload
    Oid caller = InvalidOid;     // must be allowed to enqueue jobs if there is a payload

    bool any() const { return payload != Datum(0) || run_at || max_attempts > 0; }
};
// Retries a job if it is finished or scheduled and its home queue is in scope. The home queue of a dead letter is the
// queue from which it came. Raises 23505 if another job has the job's unique key, 55000 if there are changes but the
// job is neither finished nor scheduled, and 42501 if the caller is not allowed to enqueue the new payload.
void retry_job(int64 id, const RetryChanges &changes, const QueueScope *scope, TimestampTz now);
// Retries the finished and scheduled jobs among `ids` (bigint[]), regardless of their queues. Unlike retry_job(), skips
// jobs whose unique key is held by another job. Returns how many jobs were changed.
int64 retry_those_with_free_keys(Datum ids, TimestampTz now);

// Makes a job run again from the given step: deletes this step and the steps that were saved after it. Raises 22023 if
// the job has no such step, and 23505 if another job has its unique key.
void retry_from(int64 id, text *step, const QueueScope *scope, TimestampTz now);

// Moves up to `max_jobs` dead letters back to the queues from which they came, where they run again from the beginning.
// Selects dead letters that are in the given queue or came from it, and moves the jobs with the lowest ids first.
// `per_second` is the number of moved jobs that become due per second; 0 means that all are due now. Skips jobs that
// other sessions have locked, and jobs whose unique key another job has. Returns how many jobs were moved. Raises 22023
// if the last job would become due more than core::kLongestPacing from now.
int64 redrive(text *queue, const QueueScope *scope, int64 max_jobs, double per_second, TimestampTz now);

}  // namespace jobq
