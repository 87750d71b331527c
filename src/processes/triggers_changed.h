// Reacts to ALTER TABLE jobq.jobs ENABLE or DISABLE TRIGGER, because disabled triggers report no changes.
// Only _PG_init may call this, while preloading.
#pragma once

namespace jobq {

// Installs the hook for ALTER TABLE.
void install_triggers_hook();

}  // namespace jobq
