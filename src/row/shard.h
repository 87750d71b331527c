// The shard number of this database among several databases. The identity sequence of jobq.jobs holds it, so that no
// session can draw an id of another shard; jobq.shard keeps it for dumps and sets the sequence.
#pragma once

#include "compat/pg.h"
#include "row/shard_policy.h"

namespace jobq {

// Returns the shard, or core::kNoShard if ids count one by one.
int own_shard();

// Raises 55000 for an id that belongs to another shard.
void require_own_shard(int64 id);

// Raises 55000 if there are jobs with ids of other shards. Locks the table, so that no transaction inserts such a job
// until this transaction ends.
void refuse_other_ids(int shard);

// Makes the database a shard from the next id on. Must be called with the owner's rights and under SPI, like
// refuse_other_ids().
void make_shard(int shard);

// Makes ids count one by one again, after the last id given.
void leave_shard();

}  // namespace jobq
