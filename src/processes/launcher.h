// The launcher: one process, connected to no database, that starts a short-lived worker in a database when a round
// there is due. Only _PG_init may call this, while preloading.
#pragma once

namespace jobq {

// Registers the launcher. Nothing happens in single-user mode or during a binary upgrade.
void register_launcher();

}  // namespace jobq
