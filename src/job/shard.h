// Which shard of several databases this one is. The identity sequence of jobq.jobs is where it stands, so no session
// can give another id; jobq.shard keeps it for dumps, and sets the sequence.
#pragma once

#include "compat/pg.h"
#include "job/shard_policy.h"

namespace jobq {

// core::kNoShard where ids count one by one.
int own_shard();

// 55000 for an id that says another shard.
void require_own_shard(int64 id);

// 55000 while there are jobs of other ids; nobody writes one then before the transaction has ended.
void refuse_other_ids(int shard);

// From the next id on. With the rights of the owner, under SPI, as the one before.
void make_shard(int shard);

// Ids count one by one again, behind the last one.
void leave_shard();

}  // namespace jobq
