// The SQL function jobq_spawn, with which a job enqueues other jobs exactly once, even if it is claimed several times.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/result_set.h"
#include "edges/edges.h"
#include "enqueue/enqueue_specs.h"
#include "finish/batch_members.h"
#include "identity/identity.h"
#include "job/change_job.h"
#include "queues/scope.h"
#include "row/owner.h"
#include "steps/steps.h"
#include "workflows/step_arguments.h"

extern "C" {
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "utils/datum.h"
}

namespace jobq {

namespace {

// Returns the queues in which the caller is allowed to enqueue jobs. Raises 42501 if the caller is not allowed to
// enqueue any jobs.
const QueueScope *producer_scope(FunctionCallInfo fcinfo) {
    constexpr const char *kEnqueue = "jobq_enqueue_jobs";
    const Oid argument = JSONBOID;
    char *schema = get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid));
    List *name = list_make2(makeString(schema), makeString(pstrdup(kEnqueue)));
    const Oid enqueue = LookupFuncName(name, 1, &argument, false);
    if (!DatumGetBool(
            DirectFunctionCall2(has_function_privilege_id, ObjectIdGetDatum(enqueue), CStringGetTextDatum("EXECUTE"))))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied for function %s", kEnqueue),
                        errhint("A role that spawns jobs must also be a producer. Run jobq_grant(role, 'producer').")));
    return scope_of(GetUserId(), enqueue);
}

// Locks the job's row, and raises JQ001 if the caller has lost the lease. Reserves a number for the step. Returns the
// children that the job has already spawned under this name (bigint[], allocated in `context`), or 0 if it has not
// spawned them yet. Sets *batch to the batch that the job has joined, or 0.
Datum begin_spawn(HeldJob job, const QueueScope *scope, const StepUse &use, int64 *number, int64 *batch,
                  MemoryContext context) {
    const SavedStep saved = save_under_lease(&job, scope, use, number);
    if (!job.held) lease_is_lost(job.id);
    *batch = batch_of_job(job.id);
    if (!saved.found) return Datum(0);
    MemoryContext inner = MemoryContextSwitchTo(context);
    const Datum children = datumCopy(PointerGetDatum(saved.jobs), false, -1);
    MemoryContextSwitchTo(inner);
    return children;
}

void save_children(int64 parent, int64 number, StepUse use, const Enqueued *enqueued, int count, Datum *children) {
    for (int i = 0; i < count; i++) children[i] = Int64GetDatum(enqueued[i].id);
    const Datum ids = array_of(children, count, INT8OID);
    use.jobs = DatumGetArrayTypeP(ids);
    add_step({.job = parent, .number = number, .use = use, .state = core::StepState::Done});
    if (count == 0) return;
    add_children(parent, ids);
    hold_known(enqueued, count, allocate_array<Datum>(static_cast<uint64>(count)));
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_spawn);
PGDLLEXPORT Datum jobq_spawn(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    const StepUse use = {step_name_argument(fcinfo, 2, "name"), core::StepKind::Spawn, nullptr, nullptr};
    require(fcinfo, 3, "specs");
    const QueueScope *scope = scope_of(fcinfo);
    const QueueScope *queues = producer_scope(fcinfo);
    MemoryContext context = CurrentMemoryContext;
    ResultSet results(fcinfo);
    HeldJob job = {};
    int64 number = 0, batch = 0;
    const Datum kept = with_owner_spi([&] {
        job = held_argument(fcinfo, 1);
        return begin_spawn(job, scope, use, &number, &batch, context);
    });
    if (kept != Datum(0)) {
        results.row({CStringGetTextDatum("kept"), kept});
        return results.done();
    }
    // Enqueues with the caller's privileges, because triggers on the new jobs must run with these privileges.
    int count = 0;
    const Enqueued *enqueued =
        enqueue_json(PG_GETARG_JSONB_P(3), core::kMaxBatch, queues, GetCurrentTimestamp(), &count, batch);
    auto *children = allocate_array<Datum>(static_cast<uint64>(count));
    with_owner_spi([&] { save_children(job.id, number, use, enqueued, count, children); });
    results.row({CStringGetTextDatum("saved"), array_of(children, count, INT8OID)});
    return results.done();
}

}  // extern "C"

}  // namespace jobq
