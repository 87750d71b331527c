// Deletes unused lanes from jobq.lane_directory. "Lanes" in docs/internals/claim.md explains why the lane of a
// claimable job is never deleted.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Marks a limited number of unused lanes as retiring, or deletes lanes that were marked earlier. Never waits. Returns
// whether the next call should follow soon. Must be called inside with_spi().
bool retire_lanes(TimestampTz now);

}  // namespace jobq
