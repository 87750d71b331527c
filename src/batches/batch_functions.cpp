// The SQL functions jobq_create_batch, jobq_seal_batch, and jobq_get_batch.
#include "compat/pg.h"

#include "batches/callbacks.h"
#include "batches/settle.h"
#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/subtransaction.h"
#include "finish/batch_members.h"
#include "log/transaction_log.h"
#include "row/jobs_catalog.h"
#include "row/owner.h"
#include "row/payload.h"

namespace jobq {

namespace {

constexpr size_t kMaxBatchNameBytes = 255;

Statement add_batch = {
    R"(INSERT INTO jobq.batch_settings (id, name, on_complete, on_success, on_failure, metadata, created_by)
       VALUES ($1, $2, $3, $4, $5, $6, $7))",
    {INT8OID, TEXTOID, JSONBOID, JSONBOID, JSONBOID, JSONBOID, TEXTOID}};
Statement seal = {"UPDATE jobq.batch_settings b SET sealed_at = $2 WHERE b.id = $1 AND b.sealed_at IS NULL",
                  {INT8OID, TIMESTAMPTZOID}};
Statement get_batch = {"SELECT b.* FROM jobq.batches b WHERE b.id = $1", {INT8OID}};

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_create_batch);
PGDLLEXPORT Datum jobq_create_batch(PG_FUNCTION_ARGS) {
    enum { Name, FirstCallback, Metadata = FirstCallback + kCallbacks };
    require_writable(fcinfo);
    text *name = require_text(fcinfo, Name, "name");
    check_name(view(name), "name", kMaxBatchNameBytes, true);
    const QueueScope *scope = scope_of(fcinfo);
    const TimestampTz now = GetCurrentTimestamp();
    const int64 id = next_job_id();
    Params params;
    params.add(Int64GetDatum(id)).add(PointerGetDatum(name));
    for (int i = 0; i < kCallbacks; i++) {
        const int argument = FirstCallback + i;
        if (given(fcinfo, argument))
            job_of_callback(static_cast<Callback>(i), PG_GETARG_JSONB_P(argument), id, scope, now, true);
        params.add_if(given(fcinfo, argument), PG_GETARG_DATUM(argument));
    }
    if (given(fcinfo, Metadata)) check_json_size(PG_GETARG_DATUM(Metadata), "metadata");
    params.add_if(given(fcinfo, Metadata), PG_GETARG_DATUM(Metadata))
        .add(CStringGetTextDatum(GetUserNameFromId(GetUserId(), false)));
    with_owner_spi([&] { run(add_batch, params); });
    PG_RETURN_INT64(id);
}

PG_FUNCTION_INFO_V1(jobq_seal_batch);
PGDLLEXPORT Datum jobq_seal_batch(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const int64 id = require_int64(fcinfo, 0, "batch_id");
    const QueueScope *scope = scope_of(fcinfo);
    const TimestampTz now = GetCurrentTimestamp();
    // Checks the privileges first, because a caller must not stop others from adding members to a batch that it is not
    // allowed to use.
    const BatchUse use = look_up_batch(id, scope);
    if (!use.exists) PG_RETURN_NULL();
    if (!use.allowed) refuse_batch_use(id);
    if (use.sealed) PG_RETURN_BOOL(false);
    stop_joining(id);
    bool sealed = false;
    with_owner_spi([&] {
        run(seal, Params().add(Int64GetDatum(id)).add(TimestampTzGetDatum(now)));
        sealed = affected() > 0;
    });
    if (!sealed && IsolationUsesXactSnapshot())
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not serialize access due to a concurrent change to batch %lld",
                               static_cast<long long>(id)),
                        errhint("Run the transaction again.")));
    if (!sealed) PG_RETURN_BOOL(false);
    // Requests a round of the duty after the commit. A round that a member requested when it ended has not seen the
    // seal if the member ended before the seal was committed.
    log_member_ended();
    // An old snapshot does not show the members that were added while this call waited, so the duty must look. If a
    // callback cannot be enqueued, the duty tries again and records the error.
    FailureText failure;
    if (!IsolationUsesXactSnapshot()) with_spi([&] { attempt([&] { settle_batch(id, now); }, &failure); });
    PG_RETURN_BOOL(true);
}

PG_FUNCTION_INFO_V1(jobq_get_batch);
PGDLLEXPORT Datum jobq_get_batch(PG_FUNCTION_ARGS) {
    const int64 id = require_int64(fcinfo, 0, "batch_id");
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    const BatchUse use = look_up_batch(id, scope);
    if (use.allowed) with_owner_spi([&] { results.rows(read(get_batch, Params().add(Int64GetDatum(id)))); });
    return results.done();
}

}  // extern "C"

}  // namespace jobq
