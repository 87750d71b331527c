// The trigger on jobq.shard: what its row says, the ids of jobs do from now on, also when a dump brings it.
#include "compat/pg.h"

#include "by_hand/job_row.h"
#include "compat/spi.h"
#include "job/shard.h"

namespace jobq {

namespace {

// core::kNoShard: the row is gone.
int shard_after(const TriggerData *trigger) {
    if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) || TRIGGER_FIRED_BY_DELETE(trigger->tg_event)) return core::kNoShard;
    HeapTuple row = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple;
    TupleDesc desc = RelationGetDescr(trigger->tg_relation);
    const int column = SPI_fnumber(desc, "shard_id");
    if (column <= 0)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table jobq.shard has no column \"shard_id\""),
                        errhint("jobq's own columns must stay as they are.")));
    bool null;
    return DatumGetInt32(SPI_getbinval(row, desc, column, &null));
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_follow_shard);
PGDLLEXPORT Datum jobq_follow_shard(PG_FUNCTION_ARGS) {
    const int shard = shard_after(trigger_data(fcinfo));
    with_spi([&] {
        if (shard == core::kNoShard)
            leave_shard();
        else
            make_shard(shard);
    });
    return Datum(0);
}

}  // extern "C"

}  // namespace jobq
