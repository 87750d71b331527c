// See owner.h.
#include "pg/pg.h"

#include "store/owner.h"

extern "C" {
#include "catalog/pg_class.h"
#include "utils/syscache.h"
}

namespace jobq {

namespace {

Oid owner_of_tables() {
    const Oid table = get_relname_relid("jobs", get_namespace_oid("jobq", false));
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
    if (!HeapTupleIsValid(tuple)) elog(ERROR, "jobq: cache lookup failed for jobq.jobs");
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
    ReleaseSysCache(tuple);
    return owner;
}

}  // namespace

OwnerRights become_owner() {
    OwnerRights rights;
    GetUserIdAndSecContext(&rights.user, &rights.context);
    SetUserIdAndSecContext(owner_of_tables(), rights.context | SECURITY_LOCAL_USERID_CHANGE);
    rights.nest_level = NewGUCNestLevel();
    set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                      false);
    return rights;
}

void resign(const OwnerRights &rights) {
    AtEOXact_GUC(true, rights.nest_level);
    SetUserIdAndSecContext(rights.user, rights.context);
}

}  // namespace jobq
