// The jobs of a queue with the same group_key run one at a time. Those that wait for their turn have
// the group's number in _group_waiting, the one whose turn it is has it in _group_active until it is finished. Only
// unblocking (groups/unblock.h) gives a job its turn.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "groups/group_policy.h"
#include "groups/unblock.h"

namespace jobq {

// ---- for unblock.cpp

void look_at_groups(const Unblocked *told, int count, Unblocking *done);
bool search_groups(SearchPlace *place, int limit, Unblocking *done);
void forget_groups();

// Whether any job waits for its turn. Inside with_spi().
bool any_group_waits();

}  // namespace jobq
