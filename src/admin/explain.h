// Why a job does not run, and why a queue stands still. Inside with_spi(); changes nothing.
#pragma once

#include "admin/reasons.h"
#include "compat/pg.h"

namespace jobq {

// All that keeps the job from running or from being claimed next, the first thing first; none when there is no such
// job.
void explain_job(int64 job_id, TimestampTz now, ReasonSink *sink);

// The same of a queue: what stops all of it, what its jobs wait for, and whether anything is claimable.
void explain_queue(std::string_view name, TimestampTz now, ReasonSink *sink);

}  // namespace jobq
