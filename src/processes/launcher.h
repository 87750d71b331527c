// The launcher: one process, connected to no database, that starts a short-lived worker in a database when periodic
// work is due there. Only _PG_init may call this, while preloading.
#pragma once

namespace jobq {

// Registers the launcher. Does nothing in single-user mode or during a binary upgrade.
void register_launcher();

}  // namespace jobq
