// Two queues whose lanes have one number.
#pragma once

#include "compat/pg.h"
#include "job/jobs_table.h"

#include <string_view>

namespace jobq {

// Whether the job in the row, which was found in a lane of this queue, is one of another queue: lanes are hashes, and
// whoever knows how makes two of one number. What was left in its old lane while triggers were off is no such job.
bool is_of_other_queue(const JobsTable &jobs, std::string_view queue);

}  // namespace jobq
