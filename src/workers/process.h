// What the launcher and the workers have in common as processes: signals, settings of their own, waiting.
// Who may call it: launcher.cpp and worker.cpp.
#pragma once

#include "pg/pg.h"
#include "core/job.h"

namespace jobq {

// Handlers of SIGHUP and SIGTERM. Called first, while signals are still blocked.
void install_signal_handlers();

// Makes the process independent of what the cluster, a database or a role sets. Called once connected.
void use_own_settings();

// True when the process shall end, seen at a moment when it can end without an error in the log.
bool asked_to_stop();

// Reads the configuration files again if the server was told to. True when it did.
bool reload_settings();

// Until the latch is set, the span has passed or the server has died. The latch is reset.
void wait_for_latch(core::Micros span);

}  // namespace jobq
