// See rights.h.
#include "compat/pg.h"

#include "compat/rights.h"

namespace jobq {

bool has_rights_of(Oid role) { return has_privs_of_role(GetUserId(), role); }

Rights take_rights(Oid role) {
    Rights rights;
    GetUserIdAndSecContext(&rights.user, &rights.context);
    SetUserIdAndSecContext(role, rights.context | SECURITY_LOCAL_USERID_CHANGE);
    rights.nest_level = NewGUCNestLevel();
    set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                      false);
    return rights;
}

void give_back(const Rights &rights) {
    AtEOXact_GUC(true, rights.nest_level);
    SetUserIdAndSecContext(rights.user, rights.context);
}

}  // namespace jobq
