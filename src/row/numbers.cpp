// See numbers.h.
#include "compat/pg.h"

#include "compat/relation_changes.h"
#include "core/fairness.h"
#include "core/group.h"
#include "core/lane.h"
#include "core/limit.h"
#include "row/numbers.h"

namespace jobq {

namespace {

constexpr AttrNumber kSecret = 2;
constexpr int kSecretBytes = 16;

core::HashKey known;
// The cached secret is valid while known_generation and current_generation are equal.
uint64 known_generation = 0;
uint64 current_generation = 1;
Oid secret_table = InvalidOid;

// Invalidates the cached secret if the server reports a change to the table that stores it: the table might have been
// dropped, or its trigger might have sent an invalidation message for a new row.
void on_relcache_invalidation(Oid relation) {
    if (relation == InvalidOid || relation == secret_table) current_generation++;
}

[[noreturn]] void secret_is_lost() {
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("table \"jobq.hash_secret\" is empty"),
         errdetail(
             "The numbers of lanes, groups, and limits are hashes that were computed with the secret in this table."),
         errhint("Stop producers and workers, and run INSERT INTO jobq.hash_secret DEFAULT VALUES as the owner of "
                 "the extension. The background worker or jobq_tick() then recomputes the numbers of all jobs.")));
    pg_unreachable();
}

uint64 number_at(const unsigned char *bytes) {
    uint64 number = 0;
    for (int i = 0; i < 8; i++) number |= static_cast<uint64>(bytes[i]) << (8 * i);
    return number;
}

// Reads the table directly instead of with SQL, because the calling role has no privileges on the table, and row-level
// security hides the row. Uses a catalog snapshot, because such a snapshot can be taken even if the transaction has no
// snapshot, and it sees everything that has been committed.
bool read_secret(core::HashKey *secret) {
    secret_table = get_relname_relid("hash_secret", get_namespace_oid("jobq", false));
    if (!OidIsValid(secret_table)) return false;
    Relation table = table_open(secret_table, AccessShareLock);
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
    bool found = false;
    if (HeapTuple row = systable_getnext(scan)) {
        TupleDesc desc = RelationGetDescr(table);
        auto *values = static_cast<Datum *>(palloc(sizeof(Datum) * desc->natts));
        auto *nulls = static_cast<bool *>(palloc(sizeof(bool) * desc->natts));
        // Does not use heap_getattr(), because heap_getattr() calls a function that some minor releases of PostgreSQL
        // lack.
        heap_deform_tuple(row, desc, values, nulls);
        const bytea *bytes = nulls[kSecret - 1] ? nullptr : DatumGetByteaPP(values[kSecret - 1]);
        found = bytes != nullptr && VARSIZE_ANY_EXHDR(bytes) == kSecretBytes;
        if (found) {
            const auto *begin = reinterpret_cast<const unsigned char *>(VARDATA_ANY(bytes));
            *secret = {number_at(begin), number_at(begin + 8)};
        }
    }
    systable_endscan(scan);
    table_close(table, AccessShareLock);
    return found;
}

const core::HashKey &find_secret() {
    on_relation_change<on_relcache_invalidation>();
    // Reads the generation before the table, so that an invalidation that arrives while the table is being read makes
    // the cached secret stale.
    const uint64 generation = current_generation;
    core::HashKey secret;
    if (!read_secret(&secret)) secret_is_lost();
    known = secret;
    known_generation = generation;
    return known;
}

inline const core::HashKey &own_secret() {
    return likely(known_generation == current_generation) ? known : find_secret();
}

}  // namespace

int64 lane_number(std::string_view queue, std::string_view kind, int32 version, const Names &requires_sorted,
                  const Names &limits_sorted) {
    return core::lane_hash(own_secret(), queue, kind, version, requires_sorted.items, requires_sorted.count,
                           limits_sorted.items, limits_sorted.count);
}

int64 group_number(std::string_view queue, std::string_view key) { return core::group_hash(own_secret(), queue, key); }

int64 queue_limit_id(std::string_view queue) { return core::queue_limit_hash(own_secret(), queue); }

int64 key_limit_id(std::string_view queue, std::string_view key) {
    return core::key_limit_hash(own_secret(), queue, key);
}

int64 kind_limit_id(std::string_view queue, std::string_view kind) {
    return core::kind_limit_hash(own_secret(), queue, kind);
}

int64 named_limit_id(std::string_view name) { return core::named_limit_hash(own_secret(), name); }

int64 round_robin_key_of(std::string_view concurrency_key) {
    return core::round_robin_hash(own_secret(), concurrency_key);
}

}  // namespace jobq
