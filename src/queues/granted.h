// Reads arguments that name a queue and checks that the caller may use it (queues/scope.h).
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "queues/scope.h"

namespace jobq {

// Returns the queue that the caller names. Raises 22004, 42602, or 42622 for an invalid name and 42501 for a queue that
// was not granted. Call it before any other check reveals something about the queue.
inline text *granted_queue(FunctionCallInfo fcinfo, int n, const char *name) {
    text *queue = require_text(fcinfo, n, name);
    check_queue_name(view(queue), name);
    check_scope(scope_of(fcinfo), view(queue));
    return queue;
}

}  // namespace jobq
