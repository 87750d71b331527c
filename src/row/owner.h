// Runs code with the privileges of the owner of jobq's tables. SQL-callable functions use this code instead of SECURITY
// DEFINER, so that they know their caller (queues/scope.h). EXECUTE privileges determine which roles can call these
// functions.
#pragma once

#include "compat/pg.h"
#include "compat/rights.h"
#include "compat/spi.h"

namespace jobq {

// Returns whether a table belongs to the extension. The check is needed because, after the extension has been dropped,
// another role can create a schema and a table with the same names.
bool is_own_table(Oid table);

Oid owner_of_tables();

template <typename Body>
void as_owner(Body body) {
    as_role(owner_of_tables(), body);
}

// Calls with_spi() with the owner's privileges.
template <typename Body>
auto with_owner_spi(Body body) {
    return as_role(owner_of_tables(), [&] { return with_spi(body); });
}

// Calls body with with_owner_spi() under a new snapshot, so that body sees everything that has been committed since the
// transaction's snapshot was taken.
template <typename Body>
void with_owner_spi_now(Body body) {
    with_owner_spi([&] {
        PushActiveSnapshot(GetLatestSnapshot());
        body();
        PopActiveSnapshot();
    });
}

}  // namespace jobq
