// What one job must not leave to the next in an executor's session, and what a handler is to find there.
#pragma once

#include "compat/pg.h"
#include "handlers/handler.h"

namespace jobq {

// DISCARD ALL, but for cached plans, which hold nothing that anybody can see. Inside a transaction of its own.
void discard_session();

// Of that what decides how the next transaction runs. The same.
void reset_settings();

// The settings of a handler, until they are discarded. The same.
void apply_settings(const Handler &handler);

// The session is made independent of what the database or the role says of transactions, and of SET ROLE. Once, when
// connected.
void use_settings_of_executors();

}  // namespace jobq
