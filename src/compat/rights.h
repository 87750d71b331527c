// Runs part of a function with the privileges of a role. SECURITY DEFINER is not used, because it makes every call to a
// function slower.
#pragma once

#include "compat/call_then.h"
#include "compat/pg.h"

namespace jobq {

// Returns whether the session currently has the privileges of the role, because its current user is the role, a member
// of the role, or a superuser.
bool has_rights_of(Oid role);

// The state that as_role() saves and restores. After an error, the server restores this state when it aborts the
// transaction or subtransaction.
struct Rights {
    Oid user;
    int context;
    int nest_level;
};
Rights take_rights(Oid role);
void give_back(const Rights &rights);

// Runs body() as the role and with search_path = pg_catalog, pg_temp, like a function with SECURITY DEFINER and SET.
// Returns the result of body().
template <typename Body>
auto as_role(Oid role, Body body) {
    const Rights rights = take_rights(role);
    return call_then(body, [&] { give_back(rights); });
}

}  // namespace jobq
