// The rights of the owner of jobq's tables, for the few statements that functions run which otherwise need no SQL. Who
// may call them is decided by EXECUTE.
#pragma once

#include "pg/pg.h"
#include "pg/rights.h"

namespace jobq {

Oid owner_of_tables();

template <typename Body>
void as_owner(Body body) {
    as_role(owner_of_tables(), body);
}

}  // namespace jobq
