// Lanes that nobody uses leave the directory. docs/design.md, "Lanes", says why no job is
// left behind.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Does the next step, some lanes at a time: marks lanes as retiring, or deletes those that have been marked. Inside
// with_spi(). Waits for nobody. Returns whether there is another step to come soon.
bool retire_lanes(TimestampTz now);

}  // namespace jobq
