// Arguments that name a queue, as far as the caller may use it (queues/scope.h).
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "queues/scope.h"

namespace jobq {

// A queue that the caller names: 22004, 42602 or 42622 for what is none, 42501 for one that was not granted. To be used
// before anything is said of the queue.
inline text *granted_queue(FunctionCallInfo fcinfo, int n, const char *name) {
    text *queue = require_text(fcinfo, n, name);
    check_queue_name(view(queue), name);
    check_scope(scope_of(fcinfo), view(queue));
    return queue;
}

}  // namespace jobq
