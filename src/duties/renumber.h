// Renumbers jobs whose rows came from another database. See renumber.cpp.
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

namespace jobq {

// Searches one piece of jobq.jobs for jobs whose numbers were assigned in another database. After the last piece,
// renumbers the jobs that were found. From then on, does nothing until the triggers of jobq.jobs are changed. Must be
// called inside with_spi().
void renumber_jobs(DutyOutcome *outcome);

}  // namespace jobq
