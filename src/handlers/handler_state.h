// Determines the current state of a handler, for the view jobq.handlers.
#pragma once

#include "compat/pg.h"
#include "handlers/handler.h"

namespace jobq {

struct HandlerState {
    const char *state;   // running, idle, waiting, broken or off
    const char *reason;  // why it does nothing; nullptr if nothing prevents it from running
    int executors;       // processes of its role in this database
    int running;         // jobs of this handler that run now
};
// Returns the state of a handler. Call it inside a transaction.
HandlerState state_of_handler(const Handler &handler);

}  // namespace jobq
