// A hook that makes the background worker leave a database before a command such as DROP DATABASE, which fails while a
// session is connected to the database. The hook also notifies the launcher of commands that add, change, or drop
// databases.
#pragma once

namespace jobq {

// Installs the hook in ProcessUtility_hook. Only _PG_init may call this function, and only while the library is being
// preloaded.
void install_database_commands_hook();

}  // namespace jobq
