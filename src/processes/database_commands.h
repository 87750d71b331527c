// Makes the background worker leave a database before a command that fails while a session is connected to it, such as
// DROP DATABASE. Notifies the launcher of commands that add, change, or drop databases. Only _PG_init may call this,
// while preloading.
#pragma once

namespace jobq {

// Installs the hook in ProcessUtility_hook.
void install_database_commands_hook();

}  // namespace jobq
