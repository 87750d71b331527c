// The file that keeps the totals while the server is down, as the server's statistics and pg_stat_statements have
// theirs.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Enters what the last clean shutdown has left, and removes it: after a crash there is none, and what a primary has
// left is not a standby's, nor a copy's. The next clean shutdown of this server leaves it again. Once the shared memory
// is made, in the process that makes it, after make_data_directory().
void keep_totals_in_file();

}  // namespace jobq
