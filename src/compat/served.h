// Whether background workers serve a database, and why not.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "catalog/pg_database.h"
}

namespace jobq {

enum class Unserved : uint8 { No, Template, NoConnections, NotSelected, Invalid, Gone };

Unserved why_unserved(const FormData_pg_database &database);
// Of one with that oid, as the catalogue has it. In a transaction.
Unserved why_unserved(Oid database);
// For people; nullptr: it is served.
const char *reason_of(Unserved why);

}  // namespace jobq
