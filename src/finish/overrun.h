// Ends an attempt that has exceeded max_runtime. The rescue and the code that stops a handler use this function.
#pragma once

#include "compat/pg.h"
#include "finish/ending.h"

namespace jobq {

// Ends the attempt of the running job in table.row, whose state is `before`. Like write_life(), returns false if the
// caller must read the job again.
bool end_overrun(JobsTable *jobs, const JobState &before, TimestampTz now, Endings *endings);

}  // namespace jobq
