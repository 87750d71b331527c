// Cleans up an executor's session between two jobs, and applies the settings of handlers.
#pragma once

#include "compat/pg.h"
#include "handlers/handler.h"

namespace jobq {

// Does what DISCARD ALL does, except that it keeps cached plans, which have no visible effect. Call it inside a
// transaction of its own.
void discard_session();

// Resets only the role and the settings, because these affect the next transaction. Call it inside a transaction of its
// own.
void reset_settings();

// Applies the settings of a handler until they are reset. Call it inside a transaction of its own.
void apply_settings(const Handler &handler);

// Makes the session independent of the transaction defaults (such as default_transaction_isolation) and the setting
// `role` of the database or the role. Call it once, after the session has connected.
void use_settings_of_executors();

}  // namespace jobq
