// Notifies the worker of the database when DROP EXTENSION or DROP OWNED has dropped the extension.
#pragma once

namespace jobq {

// Installs the hook for DROP EXTENSION and DROP OWNED.
void install_drop_extension_hook();

}  // namespace jobq
