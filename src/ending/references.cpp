// See references.h.
#include "compat/pg.h"

#include "compat/followers.h"
#include "ending/references.h"

#include <initializer_list>

namespace jobq {

void require_trusted_followers() {
    const Oid schema = get_namespace_oid("jobq", false);
    for (const char *name : {"jobs", "attempts", "dependencies"}) {
        Relation table = table_open(get_relname_relid(name, schema), RowExclusiveLock);
        require_trusted_followers(table, RowChange::Delete, GetUserId());
        table_close(table, NoLock);
    }
}

}  // namespace jobq
