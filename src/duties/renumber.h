// See renumber.cpp.
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

namespace jobq {

// Does one piece of the look for jobs with numbers of another database and, at the end of the look, renumbers them.
// Does nothing after the look is done, until the triggers of jobq.jobs change. Must be called inside with_spi().
void renumber_jobs(DutyOutcome *outcome);

}  // namespace jobq
