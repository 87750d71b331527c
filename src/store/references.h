// Tables that follow jobq.jobs by a foreign key (ON DELETE CASCADE, SET NULL, SET DEFAULT), and what hangs on them.
//
// The server makes such a change as the owner of that table, but fires its AFTER triggers as whoever runs the statement
// that began it (before PostgreSQL 18): with the rights of jobq's owner, where jobq deletes the job.
#pragma once

#include "pg/pg.h"

namespace jobq {

// Before a statement of ours deletes jobs. 55000 when that would fire a trigger whose function belongs to a role
// without the rights of the owner of jobq.jobs. Nobody can attach one any more until the transaction has ended. Next to
// free where no table follows jobq.jobs.
void require_trusted_followers();

}  // namespace jobq
