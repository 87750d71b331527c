// The rights of a role for a part of a function that is not SECURITY DEFINER, whose price every call would pay.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Whether the session has the rights of the role now: as the role itself, as a member of it, or as a superuser.
bool has_rights_of(Oid role);

// What as_role puts back. An error needs nobody: the end of the (sub)transaction does it.
struct Rights {
    Oid user;
    int context;
    int nest_level;
};
Rights take_rights(Oid role);
void give_back(const Rights &rights);

// Runs body as the role, under search_path = pg_catalog, pg_temp: what SECURITY DEFINER and SET do.
template <typename Body>
void as_role(Oid role, Body body) {
    const Rights rights = take_rights(role);
    body();
    give_back(rights);
}

}  // namespace jobq
