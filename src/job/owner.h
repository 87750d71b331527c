// The rights of the owner of jobq's tables, for what functions do on behalf of their callers: they are not SECURITY
// DEFINER, so that they know who calls (queues/scope.h). Who may call them is decided by EXECUTE.
#pragma once

#include "compat/pg.h"
#include "compat/rights.h"
#include "compat/spi.h"

namespace jobq {

// Whether a table is the extension's: where that has gone, anybody may make a schema of its name.
bool is_own_table(Oid table);

Oid owner_of_tables();

template <typename Body>
void as_owner(Body body) {
    as_role(owner_of_tables(), body);
}

// The same under a snapshot of what is committed now: the transaction's may be older.
template <typename Body>
void as_owner_now(Body body) {
    as_owner([&] {
        PushActiveSnapshot(GetLatestSnapshot());
        body();
        PopActiveSnapshot();
    });
}

// with_spi() with the owner's rights.
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
