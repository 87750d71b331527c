// Determines whether jobq's background workers serve a database and, if they do not, the reason.
#pragma once

#include "compat/pg.h"

extern "C" {
#include "catalog/pg_database.h"
}

namespace jobq {

enum class Unserved : uint8 { No, Template, NoConnections, NotSelected, Invalid, Gone };

Unserved why_unserved(const FormData_pg_database &database);
// Returns the reason why workers do not serve the database with this OID, or Unserved::No if they serve it. Reads the
// catalog, so it must be called in a transaction.
Unserved why_unserved(Oid database);
// Returns the reason as text for messages, or nullptr if the database is served.
const char *reason_of(Unserved why);

}  // namespace jobq
