// The end of an attempt that has taken longer than max_runtime allows. Whoever finds that out calls it: the rescue, and
// what stops a handler.
#pragma once

#include "compat/pg.h"
#include "ending/ending.h"

namespace jobq {

// Of the running job in table.row, `before`. False: look again, as write_life says.
bool end_overrun(JobsTable *jobs, const JobState &before, TimestampTz now, Endings *endings);

}  // namespace jobq
