// See table_in_use.h.
#include "compat/pg.h"

#include "table/table_in_use.h"

extern "C" {
#include "storage/bufmgr.h"
}

namespace jobq {

bool is_in_use(const char *name) {
    const Oid table = get_relname_relid(name, get_namespace_oid("jobq", false));
    if (!OidIsValid(table)) return false;
    Relation relation = table_open(table, AccessShareLock);
    const bool used = RelationGetNumberOfBlocks(relation) > 0;
    table_close(relation, AccessShareLock);
    return used;
}

}  // namespace jobq
