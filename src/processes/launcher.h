// The launcher, a process that is not connected to any database and that starts a short-lived worker in a database when
// periodic work is due in that database. Only _PG_init may call the function in this file, and only while the library
// is being preloaded.
#pragma once

namespace jobq {

// Registers the launcher. Does nothing in single-user mode or during a binary upgrade.
void register_launcher();

}  // namespace jobq
