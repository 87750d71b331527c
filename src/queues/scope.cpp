// See scope.h. Each session caches the scope of a user and function until a privilege, a membership, a role, or
// jobq.queue_grants changes. Changes to the catalogs send invalidation messages, and a trigger on jobq.queue_grants
// also sends an invalidation message.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/relation_changes.h"
#include "compat/spi.h"
#include "compat/transaction.h"
#include "queues/roles.h"
#include "queues/scope.h"
#include "row/owner.h"

#include <algorithm>

extern "C" {
#include "catalog/pg_proc.h"
}

namespace jobq {

namespace {

// Maximum number of cached scopes, which limits the memory that a session needs if it switches between many roles.
constexpr int kMaxCached = 1000;

struct CacheKey {
    Oid user;
    Oid function;
};

struct CacheEntry {
    CacheKey key;
    uint64 generation;  // the entry is valid while this equals current_generation
    bool all;
    MemoryContext context;  // owns the scope
    QueueScope *scope;
};

HTAB *cache = nullptr;
uint64 current_generation = 1;

// Whether any role has a restricted grant.
enum class Restriction : uint8 { Unknown, Nobody, Somebody };
Restriction restriction = Restriction::Unknown;

// The relations that restrict grants to certain queues: the table jobq.queue_grants, and views. A column privilege on
// one of the views marks a role as restricted.
constexpr const char *kGrantRelations[] = {"queue_grants", "producer_queues", "worker_queues", "operator_queues"};
Oid grant_relations[lengthof(kGrantRelations)];

Statement find_restriction = {
    R"(SELECT 1 FROM jobq.queue_grants
       UNION ALL
       SELECT 1 FROM pg_catalog.pg_class c, pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a
       WHERE c.oid = ANY ($1) AND t.attrelid = c.oid AND a.grantee <> c.relowner LIMIT 1)",
    {OIDARRAYOID},
    Planning::Free};

Statement find_function = {
    R"(SELECT p.oid FROM pg_catalog.pg_proc p, pg_catalog.pg_depend d, pg_catalog.pg_extension e
       WHERE p.proname = $1 AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid
         AND d.deptype = 'e' AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid
         AND e.extname = 'jobq')",
    {TEXTOID},
    Planning::Free};

Statement find_job_in_scope = {"SELECT 1 FROM jobq.jobs j WHERE j.id = $1 AND " IN_SCOPE("$2"),
                               {INT8OID, TEXTARRAYOID}};
Statement find_home_in_scope = {"SELECT 1 FROM jobq.jobs j WHERE j.id = $1 AND " HOME_IN_SCOPE("$2"),
                                {INT8OID, TEXTARRAYOID}};

void on_relcache_invalidation(Oid relation) {
    if (relation != InvalidOid && std::find(grant_relations, grant_relations + lengthof(grant_relations), relation) ==
                                      grant_relations + lengthof(grant_relations))
        return;
    restriction = Restriction::Unknown;
    current_generation++;
}

void on_syscache_invalidation(Datum, CatalogCache, uint32) { current_generation++; }

// Invalidates a cache entry. Frees the memory of its scope at the end of the transaction, because a caller might still
// be using it.
void retire(CacheEntry *entry) {
    if (entry->context != nullptr) MemoryContextSetParent(entry->context, TopTransactionContext);
    entry->context = nullptr;
    entry->generation = 0;
}

void open_cache() {
    if (cache == nullptr) {
        cache = make_hash_table("jobq scopes", sizeof(CacheKey), sizeof(CacheEntry), CacheMemoryContext);
        on_relation_change<on_relcache_invalidation>();
        for (const CatalogCache id : {AUTHMEMROLEMEM, AUTHOID, PROCOID})
            CacheRegisterSyscacheCallback(id, on_syscache_invalidation, Datum(0));
    }
    if (hash_get_num_entries(cache) < kMaxCached) return;
    HASH_SEQ_STATUS scan;
    hash_seq_init(&scan, cache);
    while (auto *entry = static_cast<CacheEntry *>(hash_seq_search(&scan))) {
        retire(entry);
        hash_search(cache, &entry->key, HASH_REMOVE, nullptr);
    }
}

bool read_restriction() {
    const Oid schema = get_namespace_oid("jobq", false);
    Datum views[lengthof(kGrantRelations)];
    for (int i = 0; i < static_cast<int>(lengthof(kGrantRelations)); i++) {
        grant_relations[i] = get_relname_relid(kGrantRelations[i], schema);
        views[i] = ObjectIdGetDatum(grant_relations[i]);
    }
    bool found = false;
    with_owner_spi_now([&] {
        // Leaves out the table jobq.queue_grants, because SELECT on that table does not restrict a role to queues.
        const Datum array = array_of(views + 1, lengthof(kGrantRelations) - 1, OIDOID);
        found = read(find_restriction, Params().add(array), GetActiveSnapshot()).size() > 0;
    });
    return found;
}

bool any_role_is_restricted() {
    if (restriction == Restriction::Unknown) {
        open_cache();
        const uint64 generation = current_generation;
        const bool found = read_restriction();
        // Does not cache the result if an invalidation message has arrived in the meantime.
        if (generation != current_generation) return found;
        restriction = found ? Restriction::Somebody : Restriction::Nobody;
    }
    return restriction == Restriction::Somebody;
}

// The queues of a user.
using Collected = Notes<std::string_view>;

// Returns whether the grants to the role itself allow it to call the function for all queues. If not, adds the queues
// of these grants to the list.
bool collect_from(Oid role, const char *function, Oid schema, Collected *to) {
    bool restricted = false;
    for (const RoleKind kind : kRoleKinds) {
        if (!kind_calls(kind, function)) continue;
        const Rows queues = queues_granted(role, kind);
        if (queues.size() > 0 || is_restricted(role, kind)) {
            for (uint64 i = 0; i < queues.size(); i++) to->add(queues[i].text_at(1));
            restricted = true;
        } else if (holds_kind(role, kind, schema)) {
            return true;
        }
    }
    // If EXECUTE was granted with a plain GRANT, it applies to all queues.
    return !restricted;
}

// Returns whether the user is allowed to call the function for all queues. If not, adds to the list the queues that the
// user is allowed to use.
bool collect_scope(Oid user, Oid function, Collected *to) {
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    if (!HeapTupleIsValid(tuple)) elog(ERROR, "jobq: cache lookup failed for function %u", function);
    const auto *form = reinterpret_cast<FormData_pg_proc *>(GETSTRUCT(tuple));
    const Oid owner = form->proowner;
    const Oid schema = form->pronamespace;
    char *name = pstrdup(NameStr(form->proname));
    bool none;
    const Datum value = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proacl, &none);
    const Acl *acl = none ? nullptr : DatumGetAclPCopy(value);
    ReleaseSysCache(tuple);
    // A function without an ACL can be called by PUBLIC.
    if (acl == nullptr || has_privs_of_role(user, owner)) return true;
    for (const AclItem *item = ACL_DAT(acl); item < ACL_DAT(acl) + ACL_NUM(acl); item++) {
        if ((ACLITEM_GET_PRIVS(*item) & ACL_EXECUTE) == 0) continue;
        if (item->ai_grantee == ACL_ID_PUBLIC) return true;
        if (has_privs_of_role(user, item->ai_grantee) && collect_from(item->ai_grantee, name, schema, to)) return true;
    }
    return false;
}

void keep_scope(CacheEntry *entry, Collected *found) {
    std::sort(found->items, found->items + found->count);
    found->count = static_cast<int>(std::unique(found->items, found->items + found->count) - found->items);
    entry->context = AllocSetContextCreate(CacheMemoryContext, "jobq scope", ALLOCSET_SMALL_SIZES);
    MemoryContext outer = MemoryContextSwitchTo(entry->context);
    auto *texts = static_cast<Datum *>(palloc(sizeof(Datum) * Max(found->count, 1)));
    auto *queues = static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(found->count, 1)));
    for (int i = 0; i < found->count; i++) {
        text *queue = make_text(found->items[i]);
        texts[i] = PointerGetDatum(queue);
        queues[i] = view(queue);
    }
    entry->scope = static_cast<QueueScope *>(palloc(sizeof(QueueScope)));
    *entry->scope = {queues, found->count, array_of(texts, found->count, TEXTOID)};
    MemoryContextSwitchTo(outer);
}

void load(CacheEntry *entry) {
    retire(entry);
    // Reads the generation first, so that an invalidation message that arrives during the load makes the entry stale
    // again.
    const uint64 generation = current_generation;
    with_owner_spi_now([&] {
        Collected found = {};
        entry->all = collect_scope(entry->key.user, entry->key.function, &found);
        if (!entry->all) keep_scope(entry, &found);
    });
    entry->generation = generation;
}

}  // namespace

const QueueScope *scope_of(Oid user, Oid function) {
    refuse_parallel_operation();
    // Without this call, the session would receive invalidation messages only when it takes a new lock, so a long
    // transaction would never notice a REVOKE.
    AcceptInvalidationMessages();
    if (!any_role_is_restricted()) return nullptr;
    open_cache();
    const CacheKey key = {user, function};
    bool found;
    auto *entry = static_cast<CacheEntry *>(hash_search(cache, &key, HASH_ENTER, &found));
    if (!found) {
        entry->generation = 0;
        entry->context = nullptr;
    }
    if (entry->generation != current_generation) load(entry);
    return entry->all ? nullptr : entry->scope;
}

bool is_in_scope(const QueueScope *scope, std::string_view queue) {
    return scope == nullptr || std::binary_search(scope->queues, scope->queues + scope->count, queue);
}

bool is_in_scope(const QueueScope *scope, const JobsTable &jobs) {
    if (scope == nullptr) return true;
    if (is_in_scope(scope, view(DatumGetTextPP(job_value(jobs, kJobQueue))))) return true;
    return job_has(jobs, kJobDeadFrom) && is_in_scope(scope, view(DatumGetTextPP(job_value(jobs, kJobDeadFrom))));
}

bool home_is_in_scope(const QueueScope *scope, const JobsTable &jobs) {
    if (scope == nullptr) return true;
    const JobColumn home = job_has(jobs, kJobDeadFrom) ? kJobDeadFrom : kJobQueue;
    return is_in_scope(scope, view(DatumGetTextPP(job_value(jobs, home))));
}

bool may_call(Oid user, const char *function, std::string_view queue) {
    const Rows found = read(find_function, Params().add(CStringGetTextDatum(function)), GetActiveSnapshot());
    if (found.size() == 0) return false;
    const Oid call = DatumGetObjectId(found[0].get(1));
    return pg_proc_aclcheck(call, user, ACL_EXECUTE) == ACLCHECK_OK && is_in_scope(scope_of(user, call), queue);
}

void check_scope(const QueueScope *scope, std::string_view queue) {
    if (is_in_scope(scope, queue)) return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("permission denied for queue \"%.*s\"", static_cast<int>(queue.size()), queue.data()),
                    errdetail("The role was granted only some queues."),
                    errhint("Grant the queue to the role with jobq_grant(role, profile, queues).")));
}

void check_all_queues(FunctionCallInfo fcinfo) {
    if (scope_of(fcinfo) == nullptr) return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("permission denied for function %s", get_func_name(fcinfo->flinfo->fn_oid)),
                    errdetail("The function works on all queues, but the role was granted only some queues.")));
}

bool job_is_in_scope(const QueueScope *scope, int64 job) {
    return scope == nullptr || run(find_job_in_scope, Params().add(Int64GetDatum(job)).add(scope->array)).size() > 0;
}

bool home_is_in_scope(const QueueScope *scope, int64 job) {
    return scope == nullptr || run(find_home_in_scope, Params().add(Int64GetDatum(job)).add(scope->array)).size() > 0;
}

}  // namespace jobq
