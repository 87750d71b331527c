// The current state of handlers, for the view jobq.handlers, and of executors, for jobq_metrics.
#pragma once

#include "compat/pg.h"
#include "handlers/handler.h"
#include "metrics/samples.h"

namespace jobq {

struct HandlerState {
    const char *state;   // running, idle, waiting, broken or off
    const char *reason;  // why the handler does nothing; nullptr if nothing prevents it from running
    int executors;       // number of executors of the handler's role in this database
    int running;         // number of jobs that this handler is running
};
// Returns the state of a handler. Call it inside a transaction.
HandlerState state_of_handler(const Handler &handler);

// Collects the numbers of idle and busy executors in this database for jobq_metrics.
void collect_executors(Samples *samples);

}  // namespace jobq
