// The launcher's copy of pg_database: which databases exist, which of them the launcher serves, and in which of them a
// worker has already checked whether the extension exists. Only launcher.cpp may call these functions.
#pragma once

#include "compat/pg.h"

namespace jobq {

struct Database {
    Oid oid;
    char name[NAMEDATALEN];
    bool served;   // workers may run in this database
    bool visited;  // a worker has checked whether the extension exists in this database
};

// Reads pg_database in a separate transaction. Databases that were visited stay marked as visited.
void read_databases();

// Returns the database, or nullptr if it did not exist when pg_database was last read.
Database *find_database(Oid oid);

// Returns a served database that no worker has visited and that has no state in shared memory, or nullptr if there is
// no such database.
const Database *unvisited_database();

}  // namespace jobq
