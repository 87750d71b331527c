// See known_handlers.h.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/relation_changes.h"
#include "handlers/known_handlers.h"
#include "identity/identity.h"
#include "row/owner.h"

namespace jobq {

namespace {

MemoryContext memory = nullptr;
KnownHandlers known = {nullptr, 0};
Oid known_table = InvalidOid;
uint64 generation = 1;
uint64 known_generation = 0;

void on_relation(Oid relation) {
    if (relation == InvalidOid || relation == known_table) generation++;
}

void on_catalogue(Datum, CatalogCache, uint32) { generation++; }

void listen() {
    if (memory != nullptr) return;
    memory = AllocSetContextCreate(TopMemoryContext, "jobq handlers", ALLOCSET_SMALL_SIZES);
    on_relation_change<on_relation>();
    for (const CatalogCache cache : {PROCOID, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID})
        CacheRegisterSyscacheCallback(cache, on_catalogue, Datum(0));
}

// Returns whether the extension exists in this database.
bool find_table() {
    const Oid schema = get_namespace_oid("jobq", true);
    known_table = OidIsValid(schema) ? get_relname_relid("handler_settings", schema) : InvalidOid;
    if (OidIsValid(known_table) && !is_own_table(known_table)) known_table = InvalidOid;
    return OidIsValid(known_table);
}

void load() {
    known = {nullptr, 0};
    MemoryContextReset(memory);
    // Uses the role with which the process has connected, because a handler that runs as a superuser can change the
    // role of the session.
    const Oid role = GetAuthenticatedUserId();
    const char *name = GetUserNameFromId(role, true);
    // There are no handlers if the role or the extension was dropped.
    if (name == nullptr || !find_table()) return;
    MemoryContext outer = MemoryContextSwitchTo(memory);
    const Handlers handlers = read_handlers(name);
    known.items = allocate_array<KnownHandler>(static_cast<uint64>(handlers.count));
    for (int i = 0; i < handlers.count; i++) {
        KnownHandler *one = &known.items[known.count++];
        one->handler = handlers.items[i];
        one->problem = resolve_handler(one->handler, &one->target);
        // The role was dropped and created again, so its name now refers to a different role than the role of this
        // session.
        if (one->problem.sqlstate == 0 && one->target.role != role)
            one->problem = {ERRCODE_UNDEFINED_OBJECT, "the role has been replaced", ""};
    }
    MemoryContextSwitchTo(outer);
}

}  // namespace

KnownHandlers known_handlers() {
    listen();
    // Reads the generation first. If an invalidation arrives during the load, the next call then loads the handlers
    // again.
    const uint64 now = generation;
    if (known_generation != now) {
        load();
        known_generation = now;
    }
    if (known.count > 0 && leaves_jobs_alone()) return {nullptr, 0};
    return known;
}

const KnownHandler *known_handler(std::string_view queue, std::string_view kind) {
    const KnownHandlers all = known_handlers();
    for (const KnownHandler *one = all.items; one < all.items + all.count; one++)
        if (one->handler.queue == queue && one->handler.kind == kind) return one;
    return nullptr;
}

void forget_handlers() { generation++; }

}  // namespace jobq
