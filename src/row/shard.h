// The shard number of this database, if jobs are distributed over several databases (shards). The identity sequence of
// jobq.jobs generates only ids that contain the shard number, so that no session can generate an id of another shard.
// The table jobq.shard stores the shard number so that dumps contain it; restoring the table sets the sequence.
#pragma once

#include "compat/pg.h"
#include "row/shard_policy.h"

namespace jobq {

// Returns the shard number of this database, or core::kNoShard if it is not a shard.
int own_shard();

// Raises 55000 if the id belongs to another shard.
void require_own_shard(int64 id);

// Raises 55000 if there are jobs with ids of other shards. Locks the table, so that no transaction inserts such a job
// until this transaction ends.
void refuse_other_ids(int shard);

// Makes the database a shard: from the next id on, ids contain the shard number. Call this function and
// refuse_other_ids() with the owner's privileges and inside with_spi().
void make_shard(int shard);

// Makes the database an ordinary database again. The next id is then the integer after the last used id.
void leave_shard();

}  // namespace jobq
