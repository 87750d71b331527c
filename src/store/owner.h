// The rights of the extension's owner, for the few statements that functions run which otherwise need no SQL: these are
// not SECURITY DEFINER, whose price every call would pay. Who may call them is decided by EXECUTE.
#pragma once

#include "pg/pg.h"

namespace jobq {

// What as_owner puts back. An error needs nobody: the end of the (sub)transaction does it.
struct OwnerRights {
    Oid user;
    int context;
    int nest_level;
};
OwnerRights become_owner();
void resign(const OwnerRights &rights);

// Runs body as the owner of jobq's tables, under search_path = pg_catalog, pg_temp: what SECURITY DEFINER and SET do.
template <typename Body>
void as_owner(Body body) {
    const OwnerRights rights = become_owner();
    body();
    resign(rights);
}

}  // namespace jobq
