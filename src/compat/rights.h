// Runs a part of a function with the rights of a role. SECURITY DEFINER would cost time in every call.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether the session currently has the rights of the role: as the role itself, as a member, or as a superuser.
bool has_rights_of(Oid role);

// What as_role() restores. After an error, the end of the (sub)transaction restores it.
struct Rights {
    Oid user;
    int context;
    int nest_level;
};
Rights take_rights(Oid role);
void give_back(const Rights &rights);

// Runs body as the role, under search_path = pg_catalog, pg_temp, as SECURITY DEFINER and SET would.
template <typename Body>
void as_role(Oid role, Body body) {
    const Rights rights = take_rights(role);
    body();
    give_back(rights);
}

}  // namespace jobq
