// Cleans up an executor's session between two jobs, and applies the settings of handlers.
#pragma once

#include "compat/pg.h"
#include "handlers/handler.h"

namespace jobq {

// Resets the session as DISCARD ALL does, but keeps cached plans, because they have no visible effect. Call it in a
// transaction of its own.
void discard_session();

// Resets only the role and the settings, because only they affect the next transaction. Call it in a transaction of its
// own.
void reset_settings();

// Applies the settings of a handler. They are in effect until reset_settings() or discard_session() is called. Call it
// in a transaction of its own.
void apply_settings(const Handler &handler);

// Sets the transaction defaults (such as default_transaction_isolation) and `role` in the session, so that settings of
// the database or the role do not affect the executor. Call it once, after the session has connected.
void use_settings_of_executors();

}  // namespace jobq
