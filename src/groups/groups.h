// The jobs in a queue that have the same group_key run one at a time. The head of the group has the group's number in
// its column _group_active until it has finished; the jobs that wait in line have the number in _group_waiting. The
// transaction that ends the head makes the next job in line the head (groups/successors.h). If the group has no head,
// the promoter makes the first job in line the head (groups/unblock.h).
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/group.h"
#include "groups/unblock.h"

namespace jobq {

// ---- Functions for unblock.cpp

void look_at_groups(const Unblocked *published, int count, Unblocking *done);
bool search_groups(SearchPlace *place, int limit, Unblocking *done);
void forget_groups();

// Returns whether any job is in the line of any group. Call it inside with_spi().
bool any_group_waits();

}  // namespace jobq
