// The launcher's picture of pg_database: which databases there are, which of them it serves, and which it has
// looked into. Who may call it: launcher.cpp.
#pragma once

#include "compat/pg.h"

namespace jobq {

struct Database {
    Oid oid;
    char name[NAMEDATALEN];
    bool served;   // workers may run there
    bool visited;  // a worker has found out whether the extension is there
};

// Reads pg_database in a transaction of its own. What was visited stays visited.
void read_databases();

// nullptr when the last read did not see it.
Database *find_database(Oid oid);

// One that is served, was never visited and has no state; nullptr when there is none.
const Database *unvisited_database();

}  // namespace jobq
