// Runs part of a function with the rights of a role. SECURITY DEFINER would be slower, because it costs time in every
// call.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Returns whether the session currently has the rights of the role: as the role itself, as a member, or as a superuser.
bool has_rights_of(Oid role);

// The state that as_role() saves and restores. After an error, the server restores it when it aborts the
// (sub)transaction.
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
