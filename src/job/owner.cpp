// See owner.h.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "job/owner.h"

extern "C" {
#include "catalog/pg_class.h"
}

namespace jobq {

Oid owner_of_tables() {
    const Oid table = get_relname_relid("jobs", get_namespace_oid("jobq", false));
    const Oid owner = catalog_value(RELOID, table, &FormData_pg_class::relowner, InvalidOid);
    if (!OidIsValid(owner))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation \"jobq.jobs\" does not exist")));
    return owner;
}

}  // namespace jobq
