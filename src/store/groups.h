// The store, groups: the jobs of a queue with the same group_key run one at a time. Those that wait for their turn have
// the group's number in _group_waiting, the one whose turn it is has it in _group_active until it is finished. Only
// unblocking (store/unblock.h) gives a job its turn.
#pragma once

#include "core/group.h"
#include "pg/pg.h"
#include "pg/spi.h"
#include "store/unblock.h"

namespace jobq {

// ---- for unblock.cpp

void look_at_groups(const Unblocked *told, int count, Unblocking *done);
bool search_groups(SearchPlace *place, int limit, Unblocking *done);
void forget_groups();

// ---- for whoever changes jobs: what it must tell of when it commits

// A job waits for its turn from now on.
inline void publish_group_waits(int64 group, int64 job) { publish_unblocked_at_commit(Blocker::Group, group, job); }
// The job whose turn it was has ended, or is gone.
inline void publish_group_free(int64 group) { publish_unblocked_at_commit(Blocker::Group, group); }

// Whether any job waits for its turn. Inside with_spi().
bool any_group_waits();

}  // namespace jobq
