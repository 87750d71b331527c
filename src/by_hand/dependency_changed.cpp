// The trigger on jobq.dependencies: what follows from a change by hand.
#include "compat/pg.h"

#include "by_hand/trigger.h"
#include "compat/args.h"
#include "compat/rights.h"
#include "compat/spi.h"
#include "duties/dump_restore.h"
#include "edges/dependencies.h"
#include "groups/dependents.h"
#include "job/owner.h"
#include "job/transaction_log.h"

namespace jobq {

namespace {

// What follows from a change of jobq.dependencies by hand. `restored`: it comes from a dump.
void follow_edges(const TriggerData *trigger, bool restored) {
    const TimestampTz now = GetCurrentTimestamp();
    if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event)) {
        settle_all_dependents(now);
        return;
    }
    constexpr int job_id = 1, depends_on = 2;  // the columns
    const auto value_of = [&](HeapTuple row, int column) {
        bool null;
        return DatumGetInt64(SPI_getbinval(row, RelationGetDescr(trigger->tg_relation), column, &null));
    };
    const int64 before = value_of(trigger->tg_trigtuple, job_id);
    // Of a dump: its job is as it shall be, now or when it comes.
    if (restored) {
        log_unblocked(Blocker::Dependency, -before);
        return;
    }
    const bool removes = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
    const bool updates = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
    HeapTuple row = row_after(trigger);
    const int64 dependent = value_of(row, job_id), dependency = value_of(row, depends_on);
    // What is left as it is may be left over from a job that was deleted behind the triggers' back.
    const bool joins = !updates || dependent != before || dependency != value_of(trigger->tg_trigtuple, depends_on);
    Datum jobs[2] = {Int64GetDatum(before), Int64GetDatum(dependent)};
    const Datum changed = array_of(jobs, updates ? 2 : 1, INT8OID);
    lock_dependents(changed);
    if (!removes && joins) require_jobs_of_edge(dependent, dependency);
    if (!removes) block_dependents(changed);
    settle_dependents(changed);
    free_dependents(changed, now);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_follow_dependency);
PGDLLEXPORT Datum jobq_follow_dependency(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = trigger_on(fcinfo, "dependencies", TriggerTiming::AfterAny);
    const Oid owner = owner_of(trigger);
    const bool restored = TRIGGER_FIRED_BY_INSERT(trigger->tg_event) && restores(owner);
    as_role(owner, [&] { with_spi([&] { follow_edges(trigger, restored); }); });
    return Datum(0);
}

}  // extern "C"

}  // namespace jobq
