// The C functions of the extension jobq_shard. Routers and clients of a cluster call them in the same transaction as
// each call to a shard. They are written in C because, in PL/pgSQL, they took as long as an enqueue.
#include "compat/pg.h"

#include "compat/args.h"
#include "row/shard.h"

namespace jobq {

namespace {

// The caller reacts to these errors: it gets a newer map, sends its map to the shard, or uses another address.
constexpr int kErrcodeOldMap = MAKE_SQLSTATE('J', 'Q', 'R', '0', '1');
constexpr int kErrcodeNewMap = MAKE_SQLSTATE('J', 'Q', 'R', '0', '2');
constexpr int kErrcodeWrongShard = MAKE_SQLSTATE('J', 'Q', 'R', '0', '3');

constexpr AttrNumber kVersion = 2;

// Raises an error in a transaction that keeps its first snapshot. After a session has acquired a lock, it must see
// everything that other sessions have committed by then. With an older snapshot, a key could be on two shards.
void require_read_committed() {
    if (!IsolationUsesXactSnapshot()) return;
    ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                    errmsg("a shard of a cluster supports this call only in a READ COMMITTED transaction"),
                    errhint("If the connection string of the shard contains options, add default_transaction_isolation "
                            "to them.")));
}

// Locks jobq_shard.map until the transaction ends, and returns the version that was committed last. Reads the table
// directly instead of with SQL, because the calling role has no privileges on the table.
int64 locked_version() {
    Relation map = table_open(get_relname_relid("map", get_namespace_oid("jobq_shard", false)), RowShareLock);
    // A system scan takes a snapshot after the lock has been acquired.
    SysScanDesc scan = systable_beginscan(map, InvalidOid, false, nullptr, 0, nullptr);
    HeapTuple row = systable_getnext(scan);
    if (!HeapTupleIsValid(row)) elog(ERROR, "jobq: jobq_shard.map is empty");
    bool is_null = false;
    const int64 version = DatumGetInt64(fastgetattr(row, kVersion, RelationGetDescr(map), &is_null));
    systable_endscan(scan);
    table_close(map, NoLock);
    return version;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_shard_require_read_committed);
PGDLLEXPORT Datum jobq_shard_require_read_committed(PG_FUNCTION_ARGS) {
    (void)fcinfo;
    require_read_committed();
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_shard_require_shard);
PGDLLEXPORT Datum jobq_shard_require_shard(PG_FUNCTION_ARGS) {
    require(fcinfo, 0, "shard_id");
    const int32 expected = PG_GETARG_INT32(0);
    const int shard = own_shard();
    if (shard == core::kNoShard)
        ereport(ERROR, (errcode(kErrcodeWrongShard),
                        errmsg("the database is not a shard, but the router called shard %d", expected)));
    if (shard != expected)
        ereport(ERROR, (errcode(kErrcodeWrongShard),
                        errmsg("the database is shard %d, but the router called shard %d", shard, expected)));
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_shard_require_map);
PGDLLEXPORT Datum jobq_shard_require_map(PG_FUNCTION_ARGS) {
    const auto theirs = static_cast<long long>(require_int64(fcinfo, 0, "version"));
    require_read_committed();
    const auto mine = static_cast<long long>(locked_version());
    if (mine > theirs)
        ereport(ERROR,
                (errcode(kErrcodeOldMap),
                 errmsg("the router has version %lld of the map, but the shard has version %lld", theirs, mine)));
    if (mine < theirs)
        ereport(ERROR,
                (errcode(kErrcodeNewMap),
                 errmsg("the router has version %lld of the map, but the shard has only version %lld", theirs, mine)));
    PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace jobq
