// The trigger on jobq.edges, which handles the consequences of changes with plain SQL.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/rights.h"
#include "compat/spi.h"
#include "duties/dump_restore.h"
#include "edges/dependencies.h"
#include "groups/dependents.h"
#include "log/transaction_log.h"
#include "row/owner.h"
#include "triggers/trigger.h"

namespace jobq {

namespace {

struct ChangedEdge {
    int64 job, target;
    std::string_view kind;
};

ChangedEdge edge_in(const TriggerData *trigger, HeapTuple row) {
    bool null;
    return {DatumGetInt64(value_in(trigger, row, "job_id", &null)),
            DatumGetInt64(value_in(trigger, row, "target", &null)),
            view(DatumGetTextPP(value_in(trigger, row, "kind", &null)))};
}

// Raises an error unless the edge is a dependency. Edges of other kinds must not be changed with plain SQL, because
// they are also recorded in the steps of the job.
void refuse_other_kinds(const ChangedEdge &edge) {
    if (edge.kind == "depends") return;
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("edges of kind \"%.*s\" cannot be changed", static_cast<int>(edge.kind.size()), edge.kind.data()),
             errdetail("Only jobq_spawn() and jobq_await_jobs() write them."),
             errhint("Change only edges of kind \"depends\", for example through jobq.dependencies.")));
}

// Blocks or unblocks the jobs whose edges have changed. `restored` means that the change comes from a dump.
void follow_change(const TriggerData *trigger, bool restored) {
    const TimestampTz now = GetCurrentTimestamp();
    if (!TRIGGER_FIRED_FOR_ROW(trigger->tg_event)) {
        settle_all_dependents(now);
        log_unblocked_anywhere(Blocker::Edge);
        return;
    }
    const ChangedEdge before = edge_in(trigger, trigger->tg_trigtuple);
    // In a restore, the job's status is already correct, no matter whether the job is restored before or after the
    // edge.
    if (restored) {
        if (before.kind == "depends") log_unblocked(Blocker::Edge, -before.job);
        return;
    }
    const bool removes = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
    const bool updates = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
    const ChangedEdge after = edge_in(trigger, row_after(trigger));
    refuse_other_kinds(before);
    refuse_other_kinds(after);
    // If an UPDATE does not change the jobs of an edge, these jobs are not checked, because one of them might have been
    // deleted while triggers were disabled.
    const bool joins = !updates || after.job != before.job || after.target != before.target;
    Datum jobs[2] = {Int64GetDatum(before.job), Int64GetDatum(after.job)};
    const Datum changed = array_of(jobs, updates ? 2 : 1, INT8OID);
    lock_dependents(changed);
    if (!removes && joins) require_jobs_of_edge(after.job, after.target);
    if (!removes) block_dependents(changed);
    settle_dependents(changed);
    free_dependents(changed, now);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_follow_edge);
PGDLLEXPORT Datum jobq_follow_edge(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = trigger_on(fcinfo, "edges", TriggerTiming::AfterAny);
    const Oid owner = owner_of(trigger);
    const bool restored = TRIGGER_FIRED_BY_INSERT(trigger->tg_event) && restores(owner);
    as_role(owner, [&] { with_spi([&] { follow_change(trigger, restored); }); });
    return Datum(0);
}

}  // extern "C"

}  // namespace jobq
