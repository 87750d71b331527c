// Runs code with the rights of the owner of jobq's tables. The SQL-callable functions use this instead of SECURITY
// DEFINER, so that they know their caller (queues/scope.h). EXECUTE privileges decide which roles may call them.
#pragma once

#include "compat/pg.h"
#include "compat/rights.h"
#include "compat/spi.h"

namespace jobq {

// Returns whether a table belongs to the extension. If the extension has been dropped, any role may create a schema and
// table with the same names.
bool is_own_table(Oid table);

Oid owner_of_tables();

template <typename Body>
void as_owner(Body body) {
    as_role(owner_of_tables(), body);
}

// Does the same under a new snapshot, so that body sees everything that has been committed since the transaction's
// snapshot.
template <typename Body>
void as_owner_now(Body body) {
    as_owner([&] {
        PushActiveSnapshot(GetLatestSnapshot());
        body();
        PopActiveSnapshot();
    });
}

// Calls with_spi() with the owner's rights.
template <typename Body>
auto with_owner_spi(Body body) {
    const Rights rights = take_rights(owner_of_tables());
    if constexpr (std::is_void_v<decltype(body())>) {
        with_spi(body);
        give_back(rights);
    } else {
        auto result = with_spi(body);
        give_back(rights);
        return result;
    }
}

}  // namespace jobq
