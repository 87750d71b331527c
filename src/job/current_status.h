// The status of a job, by its id.
#pragma once

#include "compat/pg.h"
#include "job/job_policy.h"

namespace jobq {

// False when there is no such job. Inside with_spi().
bool current_status(int64 job_id, core::JobStatus *status);

}  // namespace jobq
