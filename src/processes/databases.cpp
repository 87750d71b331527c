// See databases.h.
#include "compat/pg.h"

#include "compat/served.h"
#include "processes/databases.h"
#include "shmem/database_state.h"

namespace jobq {

namespace {

struct List {
    Database *items;  // sorted by oid
    int count;
    MemoryContext context;
};
List known;

int compare(const void *a, const void *b) {
    const Oid left = static_cast<const Database *>(a)->oid;
    const Oid right = static_cast<const Database *>(b)->oid;
    return left < right ? -1 : left > right;
}

void append(List *list, int *capacity, const FormData_pg_database *row) {
    if (list->count == *capacity) {
        *capacity *= 2;
        list->items = static_cast<Database *>(repalloc(list->items, sizeof(Database) * *capacity));
    }
    Database *database = &list->items[list->count++];
    database->oid = row->oid;
    strlcpy(database->name, NameStr(row->datname), sizeof(database->name));
    database->served = why_unserved(*row) == Unserved::No;
    const Database *before = find_database(row->oid);
    database->visited = before != nullptr && before->visited;
}

}  // namespace

void read_databases() {
    List fresh = {nullptr, 0, AllocSetContextCreate(TopMemoryContext, "jobq databases", ALLOCSET_SMALL_SIZES)};
    int capacity = 16;
    fresh.items = static_cast<Database *>(MemoryContextAlloc(fresh.context, sizeof(Database) * capacity));

    SetCurrentStatementStartTimestamp();
    StartTransactionCommand();
    Relation relation = table_open(DatabaseRelationId, AccessShareLock);
    SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, nullptr, 0, nullptr);
    HeapTuple tuple;
    while (HeapTupleIsValid(tuple = systable_getnext(scan)))
        append(&fresh, &capacity, reinterpret_cast<FormData_pg_database *>(GETSTRUCT(tuple)));
    systable_endscan(scan);
    table_close(relation, AccessShareLock);
    CommitTransactionCommand();
    MemoryContextSwitchTo(TopMemoryContext);

    qsort(fresh.items, fresh.count, sizeof(Database), compare);
    if (known.context != nullptr) MemoryContextDelete(known.context);
    known = fresh;
}

Database *find_database(Oid oid) {
    Database key;
    key.oid = oid;
    if (known.count == 0) return nullptr;
    return static_cast<Database *>(bsearch(&key, known.items, known.count, sizeof(Database), compare));
}

const Database *unvisited_database() {
    for (int i = 0; i < known.count; i++) {
        const Database *database = &known.items[i];
        if (database->served && !database->visited && find_database_state(database->oid) == nullptr) return database;
    }
    return nullptr;
}

}  // namespace jobq
