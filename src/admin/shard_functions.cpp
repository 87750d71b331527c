// The SQL functions jobq_set_shard and jobq_shard_id, which set and return the shard number of this database.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "queues/scope.h"
#include "row/owner.h"
#include "row/shard.h"

namespace jobq {

namespace {

// Writes the shard number. The trigger on jobq.shard puts the number into effect, as it does when a dump is restored.
Statement write_shard = {
    R"(INSERT INTO jobq.shard AS s (shard_id) VALUES ($1)
       ON CONFLICT (only_row) DO UPDATE SET shard_id = excluded.shard_id)",
    {INT4OID}};

int shard_argument(FunctionCallInfo fcinfo) {
    require(fcinfo, 0, "shard_id");
    const int32 shard = PG_GETARG_INT32(0);
    if (!core::is_shard(shard))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"shard_id\" must be between 0 and %d, not %d", core::kShards - 1, shard),
                        errhint("Specify a number that no other database of the cluster uses.")));
    return shard;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_set_shard);
PGDLLEXPORT Datum jobq_set_shard(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const int shard = shard_argument(fcinfo);
    check_all_queues(fcinfo);
    if (own_shard() == shard) PG_RETURN_BOOL(false);
    with_owner_spi([&] { run(write_shard, Params().add(Int32GetDatum(shard))); });
    PG_RETURN_BOOL(true);
}

PG_FUNCTION_INFO_V1(jobq_shard_id);
PGDLLEXPORT Datum jobq_shard_id(PG_FUNCTION_ARGS) {
    const int shard = own_shard();
    if (shard == core::kNoShard) PG_RETURN_NULL();
    PG_RETURN_INT32(shard);
}

}  // extern "C"

}  // namespace jobq
