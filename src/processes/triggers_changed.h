// Reacts to ALTER TABLE jobq.jobs ENABLE or DISABLE TRIGGER, because disabled triggers do not report changes. Only
// _PG_init may call the function in this file, and only while the library is being preloaded.
#pragma once

namespace jobq {

// Installs the hook for ALTER TABLE.
void install_triggers_hook();

}  // namespace jobq
