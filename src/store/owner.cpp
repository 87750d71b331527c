// See owner.h.
#include "pg/pg.h"

#include "store/owner.h"

extern "C" {
#include "catalog/pg_class.h"
#include "utils/syscache.h"
}

namespace jobq {

Oid owner_of_tables() {
    const Oid table = get_relname_relid("jobs", get_namespace_oid("jobq", false));
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
    if (!HeapTupleIsValid(tuple)) elog(ERROR, "jobq: cache lookup failed for jobq.jobs");
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
    ReleaseSysCache(tuple);
    return owner;
}

}  // namespace jobq
