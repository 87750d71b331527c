// Keeps background workers out of the way of commands that want a database without sessions, and tells the launcher
// which commands change what it knows of databases. Who may call it: _PG_init, while preloading.
#pragma once

namespace jobq {

// Puts a hook around utility statements.
void install_database_commands_hook();

}  // namespace jobq
