// Caches the handlers of an executor's role in the executor's session until their rows, functions, roles, or privileges
// change. Only executors call these functions.
#pragma once

#include "compat/pg.h"
#include "handlers/handler.h"

namespace jobq {

struct KnownHandler {
    Handler handler;
    HandlerTarget target;
    Problem problem;  // reason why no job may be claimed for this handler, if any
};
struct KnownHandlers {
    KnownHandler *items;
    int count;
};

// Returns the handlers of the session's role. The result is valid until the next call. Returns no handlers if the
// extension has been dropped, or if the database is a copy that must not run its jobs. Call it inside a transaction.
KnownHandlers known_handlers();
// Returns the handler of the queue and kind, or nullptr if it no longer exists. Compares names instead of
// core::handler_hash(), because a user can construct names that collide.
const KnownHandler *known_handler(std::string_view queue, std::string_view kind);
// Discards the cache. Call it after settings of the server have changed.
void forget_handlers();

}  // namespace jobq
