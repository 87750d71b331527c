// See owner.h.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "row/owner.h"

extern "C" {
#include "catalog/pg_class.h"
#include "commands/extension.h"
}

namespace jobq {

bool is_own_table(Oid table) {
    const Oid extension = get_extension_oid("jobq", true);
    return OidIsValid(extension) && getExtensionOfObject(RelationRelationId, table) == extension;
}

Oid owner_of_tables() {
    // Caches the OID of the table that has passed the check. A table that is created later has a different OID, so it
    // is checked, too.
    static Oid known = InvalidOid;
    const Oid table = get_relname_relid("jobs", get_namespace_oid("jobq", false));
    const Oid owner = catalog_value(RELOID, table, &FormData_pg_class::relowner, InvalidOid);
    if (!OidIsValid(owner) || (table != known && !is_own_table(table)))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation \"jobq.jobs\" does not exist")));
    known = table;
    return owner;
}

}  // namespace jobq
