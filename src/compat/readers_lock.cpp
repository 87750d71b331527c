// See readers_lock.h.
#include "compat/pg.h"

#include "compat/readers_lock.h"

extern "C" {
#include "storage/lmgr.h"
}

namespace jobq {

bool lock_for_reading(Oid table) {
    if (!ConditionalLockRelationOid(table, AccessShareLock)) return false;
    Relation relation = table_open(table, NoLock);
    List *indexes = RelationGetIndexList(relation);
    table_close(relation, NoLock);
    ListCell *cell;
    foreach (cell, indexes)
        if (!ConditionalLockRelationOid(lfirst_oid(cell), AccessShareLock)) return false;
    return true;
}

}  // namespace jobq
