// The end of entries into an index, which table/table.cpp makes as the executor does.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Gives back what the index has kept from entry to entry, as BRIN does since PostgreSQL 17: pages that stay pinned.
inline void end_index_inserts(Relation index, struct IndexInfo *info) {
#if PG_VERSION_NUM >= 170000
    index_insert_cleanup(index, info);
#else
    (void)index;
    (void)info;
#endif
}

}  // namespace jobq
