// Explains why a job does not run, and why a queue makes no progress. Call these functions inside with_spi(). They
// change nothing.
#pragma once

#include "admin/reasons.h"
#include "compat/pg.h"

namespace jobq {

// Passes to the sink every reason why the job does not run or is not claimed next, most important first. Passes nothing
// if the job does not exist.
void explain_job(int64 job_id, TimestampTz now, ReasonSink *sink);

// Reports the batch that the job has joined, and the batch of which the job is a callback.
void explain_batch(int64 job_id, ReasonSink *sink);

// Reports to the sink why the queue makes no progress: what stops all of its jobs, what individual jobs wait for, and
// whether any job is claimable.
void explain_queue(std::string_view name, TimestampTz now, ReasonSink *sink);

}  // namespace jobq
