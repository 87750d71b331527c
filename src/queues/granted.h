// Reads an argument that names a queue and checks that the caller is allowed to use this queue (queues/scope.h).
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "queues/scope.h"

namespace jobq {

// Returns the name of the queue in argument `n`. Raises 22004, 42602, or 42622 if the name is invalid, and 42501 if the
// caller is not allowed to use the queue. Call this function before any other check, because the error of another check
// could reveal something about the queue.
inline text *granted_queue(FunctionCallInfo fcinfo, int n, const char *name) {
    text *queue = require_text(fcinfo, n, name);
    check_queue_name(view(queue), name);
    check_scope(scope_of(fcinfo), view(queue));
    return queue;
}

}  // namespace jobq
