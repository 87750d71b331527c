// The handlers of an executor's role, kept in its session until anything changes that they hang on: their rows,
// functions, roles, rights. Who may call it: an executor.
#pragma once

#include "compat/pg.h"
#include "handlers/handler.h"

namespace jobq {

struct KnownHandler {
    Handler handler;
    HandlerTarget target;
    Problem problem;  // why nothing may be claimed for it
};
struct KnownHandlers {
    KnownHandler *items;
    int count;
};

// Inside a transaction. What is returned is good until the next call. None where the extension has gone, or jobs are
// left alone.
KnownHandlers known_handlers();
// The one of this number; nullptr: there is none any more.
const KnownHandler *known_handler(uint64 hash);
// Settings of the server have changed.
void forget_handlers();

}  // namespace jobq
