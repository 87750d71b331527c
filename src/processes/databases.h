// The launcher's copy of pg_database: which databases exist, which of them it serves, and in which of them a worker has
// already checked whether the extension exists. Only launcher.cpp may call this.
#pragma once

#include "compat/pg.h"

namespace jobq {

struct Database {
    Oid oid;
    char name[NAMEDATALEN];
    bool served;   // workers may run there
    bool visited;  // a worker has found out whether the extension exists there
};

// Reads pg_database in its own transaction. Databases that were visited stay marked as visited.
void read_databases();

// Returns the database, or nullptr if the last read did not find it.
Database *find_database(Oid oid);

// Returns a served database that no worker has visited and that has no state in shared memory, or nullptr.
const Database *unvisited_database();

}  // namespace jobq
