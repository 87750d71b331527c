// See renumber.cpp.
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

namespace jobq {

// One piece of the look for jobs that carry numbers of another database and, at the end of the look, their renumbering.
// Nothing once the look is done, until the triggers of jobq.jobs are changed. Inside with_spi().
void renumber_jobs(DutyOutcome *outcome);

}  // namespace jobq
