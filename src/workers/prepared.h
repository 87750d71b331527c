// COMMIT PREPARED: jobs become claimable in a session that knows nothing of them.
// Who may call it: _PG_init, while preloading.
#pragma once

namespace jobq {

// Puts a hook behind COMMIT PREPARED.
void install_prepared_hook();

}  // namespace jobq
