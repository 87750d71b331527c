// DROP EXTENSION and DROP OWNED: the worker of the database hears of the end of the extension.
#pragma once

namespace jobq {

// Puts a hook around these commands.
void install_drop_extension_hook();

}  // namespace jobq
