// The names of all queues that have lanes, which are all queues that can have claimable jobs. Each session caches the
// names, and reads them again when new lanes have been added.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"

namespace jobq {

// Returns the names in the order of their bytes. The result is valid until the next call.
Names names_of_all_queues();

}  // namespace jobq
