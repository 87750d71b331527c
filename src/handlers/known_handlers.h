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
// That of the queue and kind; nullptr: there is none any more. Not by core::handler_hash(): whoever knows how makes
// names that have the number of others.
const KnownHandler *known_handler(std::string_view queue, std::string_view kind);
// Settings of the server have changed.
void forget_handlers();

}  // namespace jobq
