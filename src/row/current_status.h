// Looks up the status of a job by its id.
#pragma once

#include "compat/pg.h"
#include "core/job.h"

namespace jobq {

// Stores the status of the job in *status. Returns false if the job does not exist. Must be called inside with_spi().
bool current_status(int64 job_id, core::JobStatus *status);

}  // namespace jobq
