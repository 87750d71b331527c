// See callbacks.h.
#include "compat/pg.h"

#include "batches/callbacks.h"
#include "compat/json_keys.h"
#include "enqueue/enqueue_specs.h"
#include "enqueue/specs.h"

namespace jobq {

namespace {

// What has happened to the batch, in the metadata of the callback.
constexpr const char *kEvents[kCallbacks] = {"complete", "success", "failure"};

Statement find_callback = {
    R"(SELECT 1 FROM jobq.batch_settings b,
                     LATERAL (VALUES (b.on_complete), (b.on_success), (b.on_failure)) c(callback)
       WHERE b.finished_at IS NULL AND c.callback IS NOT NULL AND coalesce(c.callback ->> 'queue', $2) = $1 LIMIT 1)",
    {TEXTOID, TEXTOID}};

void add_argument_context(void *argument) { errcontext("argument \"%s\"", static_cast<const char *>(argument)); }

Datum with_batch(Datum metadata, int64 batch, const char *event) {
    if (metadata != Datum(0) && !JB_ROOT_IS_OBJECT(DatumGetJsonbP(metadata)))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("key \"metadata\" of a callback must be a JSON object"),
                        errhint("Use an object such as '{\"tenant\": 7}'. jobq adds the id of the batch to it.")));
    const char *added = psprintf("{\"batch\": %lld, \"batch_event\": \"%s\"}", static_cast<long long>(batch), event);
    const Datum of_batch = DirectFunctionCall1(jsonb_in, CStringGetDatum(added));
    return metadata == Datum(0) ? of_batch : DirectFunctionCall2(jsonb_concat, metadata, of_batch);
}

}  // namespace

JobSpec job_of_callback(Callback which, const Jsonb *object, int64 batch, const QueueScope *scope, TimestampTz now,
                        bool is_given) {
    const int i = static_cast<int>(which);
    ErrorContextCallback context = {error_context_stack, add_argument_context,
                                    const_cast<char *>(kCallbackArguments[i])};
    error_context_stack = &context;
    require_object(object, kCallbackArguments[i],
                   "Use an object such as '{\"queue\": \"emails\", \"kind\": \"report\"}'.");
    ParsedSpec spec =
        parse_spec(const_cast<JsonbContainer *>(&object->root), now, Refs{}, KeysOf::Callback, kCallbackArguments[i]);
    spec.job.optional[kMetadata] = with_batch(spec.job.optional[kMetadata], batch, kEvents[i]);
    check_spec(&spec.job, spec.has_max_attempts, scope);
    if (is_given) require_limits(spec.job);
    fill_from_queue(&spec.job, spec.has_max_attempts);
    error_context_stack = context.previous;
    return spec.job;
}

bool any_callback_in(text *queue) {
    const Params params = Params().add(PointerGetDatum(queue)).add(CStringGetTextDatum(core::kDefaultQueue));
    return run(find_callback, params).size() > 0;
}

}  // namespace jobq
