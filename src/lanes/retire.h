// Deletes lanes that are no longer used from jobq.lane_directory. "Lanes" in docs/design.md explains why this never
// deletes the lane of a job.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Marks a limited number of unused lanes as retiring, or deletes lanes that were marked earlier. Never waits. Returns
// whether the next call should follow soon. Call it inside with_spi().
bool retire_lanes(TimestampTz now);

}  // namespace jobq
