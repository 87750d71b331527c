// Tables that follow jobq's by a foreign key (ON DELETE CASCADE, SET NULL, SET DEFAULT), and what hangs on them.
//
// The server makes such a change as the owner of that table, but what it queues to be done after it (AFTER triggers,
// checks of deferrable constraints) runs as whoever runs the statement that began it (before PostgreSQL 18): with the
// rights of jobq's owner, where jobq deletes the row.
#pragma once

#include "pg/pg.h"

namespace jobq {

// Before a statement of ours deletes jobs, or settings. 55000 when a role without the rights of the owner of jobq.jobs
// has a say in what would run so. Nobody can attach anything any more until the transaction has ended. Next to free
// where no table follows.
void require_trusted_followers();

}  // namespace jobq
