// Ends an attempt that has exceeded max_runtime, for the rescue and for the code that stops a handler.
#pragma once

#include "compat/pg.h"
#include "finish/ending.h"

namespace jobq {

// Ends the attempt of the running job in table.row, whose state is `before`. Returns false if the caller must read the
// job again, as write_life() does.
bool end_overrun(JobsTable *jobs, const JobState &before, TimestampTz now, Endings *endings);

}  // namespace jobq
