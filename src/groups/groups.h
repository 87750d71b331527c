// The jobs of a queue with the same group_key run one at a time: the head of the group, which has the group's number in
// _group_active until it is finished. Those in the line behind it have the number in _group_waiting. The commit that
// ends the head makes the next one (groups/successors.h); where there is none, unblocking does (groups/unblock.h).
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/group.h"
#include "groups/unblock.h"

namespace jobq {

// ---- for unblock.cpp

void look_at_groups(const Unblocked *told, int count, Unblocking *done);
bool search_groups(SearchPlace *place, int limit, Unblocking *done);
void forget_groups();

// Whether any job stands in the line of a group. Inside with_spi().
bool any_group_waits();

}  // namespace jobq
