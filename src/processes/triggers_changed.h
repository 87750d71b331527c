// ALTER TABLE jobq.jobs ... TRIGGER: what came while triggers were switched off nobody was told of.
// Who may call it: _PG_init, while preloading.
#pragma once

namespace jobq {

// Puts a hook behind ALTER TABLE.
void install_triggers_hook();

}  // namespace jobq
