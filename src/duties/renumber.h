// See renumber.cpp.
#pragma once

#include "compat/pg.h"
#include "job/duty_outcome.h"

namespace jobq {

// Searches one piece of the table for jobs with numbers of another database. After the last piece, renumbers the jobs
// that were found. Then does nothing until the triggers of jobq.jobs change. Must be called inside with_spi().
void renumber_jobs(DutyOutcome *outcome);

}  // namespace jobq
