// Makes background workers leave a database for commands that need it without sessions, and notifies the launcher of
// commands that add, change, or drop databases. Only _PG_init may call this, while preloading.
#pragma once

namespace jobq {

// Puts a hook around utility statements.
void install_database_commands_hook();

}  // namespace jobq
