// The SQL functions jobq_set_handler and jobq_drop_handler, and the function that the view jobq.handlers calls.
// jobq_set_handler and jobq_drop_handler check the arguments and the privileges of the caller, and write the rows. They
// are not SECURITY DEFINER, because they must check whether the caller is allowed to become the role that runs the
// handler.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/settings.h"
#include "handlers/handler.h"
#include "handlers/handler_state.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "queues/known_queues.h"
#include "row/owner.h"

extern "C" {
#include "catalog/pg_namespace_d.h"
}

namespace jobq {

namespace {

// Inserts or updates a handler. Compares the rows as text and does not write an identical handler again, because every
// write makes all executors reload the handlers.
Statement put = {
    R"(INSERT INTO jobq.handler_settings AS h (queue, kind, handler, run_as, max_executors, versions, capabilities, settings)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
       ON CONFLICT (queue, kind) DO UPDATE
       SET (handler, run_as, max_executors, versions, capabilities, settings) = ($3, $4, $5, $6, $7, $8)
       WHERE ROW(h.handler, h.run_as, h.max_executors, h.versions, h.capabilities, h.settings)::text
             IS DISTINCT FROM ROW($3, $4, $5, $6, $7, $8)::text)",
    {TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID},
    Planning::Free};

Statement remove = {
    "DELETE FROM jobq.handler_settings h WHERE h.queue = $1 AND h.kind = $2", {TEXTOID, TEXTOID}, Planning::Free};

enum Argument { kQueue, kKind, kHandler, kRunAs, kMaxOfIt, kVersions, kCapabilities, kSettings };

text *kind_argument(FunctionCallInfo fcinfo) {
    text *kind = require_text(fcinfo, kKind, "kind");
    check_name(view(kind), "kind", core::kMaxKindBytes, true);
    return kind;
}

// Returns the role that runs the handler, which is the caller if the argument is NULL.
Oid role_argument(FunctionCallInfo fcinfo) {
    const Oid role = given(fcinfo, kRunAs) ? PG_GETARG_OID(kRunAs) : GetUserId();
    const char *name = GetUserNameFromId(role, true);
    if (name == nullptr)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                        errmsg("role with OID %u, given as argument \"run_as\", does not exist", role),
                        errhint("Specify an existing role.")));
    if (!may_set_role(GetUserId(), role))
        ereport(ERROR,
                (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied to run as role \"%s\"", name),
                 errdetail("You must be able to SET ROLE to this role."),
                 errhint("Ask an administrator to grant you the role, or specify another role.")));
    return role;
}

// Returns the quoted, schema-qualified name of the function, so that the result does not depend on search_path.
const char *handler_argument(FunctionCallInfo fcinfo) {
    require(fcinfo, kHandler, "handler");
    const Oid function = PG_GETARG_OID(kHandler);
    const char *name = get_func_name(function);
    if (name == nullptr)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("function with OID %u, given as argument \"handler\", does not exist", function),
                        errhint("Write the name with the argument type, for example 'send_mail(jsonb)'.")));
    const Oid schema = get_func_namespace(function);
    if (isAnyTempNamespace(schema))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"handler\" must not be a temporary function: %s", name),
                        errhint("Create the function in a schema that is not temporary.")));
    Oid *types;
    int count;
    get_func_signature(function, &types, &count);
    if (count != 1 || types[0] != JSONBOID)
        ereport(ERROR, (errcode(ERRCODE_INVALID_FUNCTION_DEFINITION), errmsg("function %s cannot be a handler", name),
                        errhint("A handler must be a function that takes one jsonb argument and returns jsonb or void, "
                                "or a procedure that takes one jsonb argument.")));
    return quote_qualified_identifier(get_namespace_name(schema), name);
}

int max_executors_argument(FunctionCallInfo fcinfo) {
    require(fcinfo, kMaxOfIt, "max_executors");
    const int32 most = check_positive(PG_GETARG_INT32(kMaxOfIt), "max_executors");
    if (most > kMaxExecutors)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"max_executors\" is too large: %d", most),
                 errhint("At most %d executors are allowed.", kMaxExecutors)));
    return most;
}

void check_lists(FunctionCallInfo fcinfo) {
    if (given(fcinfo, kVersions)) require_elements(fcinfo, kVersions, INT4OID, "versions", core::kMaxNames);
    if (given(fcinfo, kCapabilities))
        names_of(PG_GETARG_ARRAYTYPE_P(kCapabilities), "capabilities", core::kMaxCapabilityBytes, core::kMaxNames);
}

void refuse(const Problem &problem) {
    if (problem.sqlstate == 0) return;
    ereport(ERROR, (errcode(problem.sqlstate), errmsg("%s", problem.message), errhint("%s", problem.hint)));
}

Handler handler_of_arguments(FunctionCallInfo fcinfo, text *queue, text *kind) {
    Handler handler = {};
    handler.queue = view(queue);
    handler.kind = view(kind);
    handler.run_as = GetUserNameFromId(role_argument(fcinfo), false);
    handler.function = handler_argument(fcinfo);
    handler.max_executors = max_executors_argument(fcinfo);
    check_lists(fcinfo);
    if (given(fcinfo, kSettings))
        read_settings_of(&handler, require_elements(fcinfo, kSettings, TEXTOID, "settings", core::kMaxNames));
    return handler;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_set_handler);
PGDLLEXPORT Datum jobq_set_handler(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = granted_queue(fcinfo, kQueue, "queue");
    require_known_queue(view(queue));
    text *kind = kind_argument(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    const Handler handler = handler_of_arguments(fcinfo, queue, kind);
    HandlerTarget target;
    refuse(resolve_handler(handler, &target));
    const auto argument = [&](int n) { return given(fcinfo, n) ? PG_GETARG_DATUM(n) : Datum(0); };
    PG_RETURN_BOOL(with_owner_spi([&] {
        warn_of_mistyped_queue(view(queue), scope);
        run(put, Params()
                     .add(PointerGetDatum(queue))
                     .add(PointerGetDatum(kind))
                     .add(CStringGetTextDatum(handler.function))
                     .add(CStringGetTextDatum(handler.run_as))
                     .add(Int32GetDatum(handler.max_executors))
                     .add_if(given(fcinfo, kVersions), argument(kVersions))
                     .add_if(given(fcinfo, kCapabilities), argument(kCapabilities))
                     .add_if(given(fcinfo, kSettings), argument(kSettings)));
        return affected() > 0;
    }));
}

PG_FUNCTION_INFO_V1(jobq_drop_handler);
PGDLLEXPORT Datum jobq_drop_handler(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const text *queue = granted_queue(fcinfo, kQueue, "queue");
    const text *kind = kind_argument(fcinfo);
    const bool dropped = with_owner_spi([&] {
        run(remove, Params().add(PointerGetDatum(queue)).add(PointerGetDatum(kind)));
        return affected() > 0;
    });
    if (!dropped)
        ereport(NOTICE,
                (errmsg("queue \"%s\" has no handler for kind \"%s\"", text_to_cstring(queue), text_to_cstring(kind)),
                 errhint("Query the view jobq.handlers to list the existing handlers.")));
    PG_RETURN_BOOL(dropped);
}

PG_FUNCTION_INFO_V1(jobq_handler_state);
PGDLLEXPORT Datum jobq_handler_state(PG_FUNCTION_ARGS) {
    enum { Queue, Kind, Function, RunAs, Settings };
    ResultSet results(fcinfo);
    for (int i = Queue; i <= RunAs; i++)
        if (PG_ARGISNULL(i)) return results.done();
    Handler handler = {};
    handler.queue = view(PG_GETARG_TEXT_PP(Queue));
    handler.kind = view(PG_GETARG_TEXT_PP(Kind));
    handler.function = text_to_cstring(PG_GETARG_TEXT_PP(Function));
    handler.run_as = text_to_cstring(PG_GETARG_TEXT_PP(RunAs));
    if (given(fcinfo, Settings))
        read_settings_of(&handler, require_elements(fcinfo, Settings, TEXTOID, "settings", core::kMaxBatch));
    const HandlerState state = state_of_handler(handler);
    const Datum values[] = {CStringGetTextDatum(state.state),
                            state.reason == nullptr ? Datum(0) : CStringGetTextDatum(state.reason),
                            Int32GetDatum(state.executors), Int32GetDatum(state.running)};
    const bool nulls[] = {false, state.reason == nullptr, false, false};
    results.row(values, nulls);
    return results.done();
}

}  // extern "C"

}  // namespace jobq
