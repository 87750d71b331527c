// Which jobs have spawned which (jobq.children). The step of the parent says so as well; by these rows others find the
// parent: its children are kept until it has finished.
//
// All of it inside with_spi(), with the owner's rights.
#pragma once

#include "compat/pg.h"

namespace jobq {

// `children`: bigint[]; one that is its child already stays so.
void add_children(int64 parent, Datum children);

// Of parents that are gone, or start anew; of all; of one that gets another id.
void forget_children(int64 parent);
void forget_all_children();
void move_children(int64 from, int64 to);

}  // namespace jobq
