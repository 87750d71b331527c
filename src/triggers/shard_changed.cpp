// The trigger on jobq.shard. It makes new jobs get ids of the shard that the row specifies, even if the row comes from
// a dump.
#include "compat/pg.h"

#include "compat/spi.h"
#include "duties/dump_restore.h"
#include "row/shard.h"
#include "triggers/trigger.h"

namespace jobq {

namespace {

// Returns the number of the shard after the command, or core::kNoShard if the row was deleted.
int shard_after(const TriggerData *trigger) {
    if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event) || TRIGGER_FIRED_BY_DELETE(trigger->tg_event)) return core::kNoShard;
    bool null;
    return DatumGetInt32(value_in(trigger, row_after(trigger), "shard_id", &null));
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_follow_shard);
PGDLLEXPORT Datum jobq_follow_shard(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = trigger_on(fcinfo, "shard", TriggerTiming::AfterAny);
    const int shard = shard_after(trigger);
    // Restored rows keep their ids.
    const bool restored = restores(owner_of(trigger));
    with_spi([&] {
        if (shard == core::kNoShard) {
            leave_shard();
        } else {
            if (!restored) refuse_other_ids(shard);
            make_shard(shard);
        }
    });
    return Datum(0);
}

}  // extern "C"

}  // namespace jobq
