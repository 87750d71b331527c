// What a handler does now: for jobq.handlers.
#pragma once

#include "compat/pg.h"
#include "handlers/handler.h"

namespace jobq {

struct HandlerState {
    const char *state;   // running, idle, waiting, broken or off
    const char *reason;  // why it does nothing; nullptr: it could
    int executors;       // processes of its role in this database
    int running;         // jobs of it that are run now
};
// Inside a transaction.
HandlerState state_of_handler(const Handler &handler);

}  // namespace jobq
