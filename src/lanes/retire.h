// Deletes lanes that are no longer used from the directory. "Lanes" in docs/design.md explains why no job is left
// without a lane.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Performs the next step for a limited number of lanes: marks lanes as retiring, or deletes marked lanes. Must be
// called inside with_spi(). Never waits. Returns whether another step will follow soon.
bool retire_lanes(TimestampTz now);

}  // namespace jobq
