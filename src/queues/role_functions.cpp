// The SQL functions jobq_grant, jobq_revoke, and jobq.may_use. jobq_grant grants the privileges of a producer, worker,
// operator, or monitor to a role, and jobq_revoke revokes them from the role. Both run with the privileges of the
// caller, so only a role that is allowed to run GRANT for these privileges can use them. jobq.may_use returns whether a
// role is allowed to call a function.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "core/lane.h"
#include "queues/roles.h"
#include "queues/scope.h"

namespace jobq {

namespace {

constexpr int kMaxQueues = 10000;  // maximum number of queues per call

RoleKind kind_argument(FunctionCallInfo fcinfo) {
    return require_choice<RoleKind>("profile", view(require_text(fcinfo, 1, "profile")), kRoleKindNames);
}

void read_queues(FunctionCallInfo fcinfo, RoleChange *change) {
    change->all_queues = !given(fcinfo, 2);
    if (change->all_queues) return;
    if (change->kind == RoleKind::Monitor)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"queues\" cannot be used with the profile \"monitor\""),
                        errhint("Omit the argument. The views that a monitor reads show all queues.")));
    change->queues = names_of(PG_GETARG_ARRAYTYPE_P(2), "queues", core::kMaxQueueBytes, kMaxQueues);
    if (change->queues.count == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"queues\" must not be empty"),
                        errhint("Omit the argument to include all queues.")));
    for (int i = 0; i < change->queues.count; i++) check_queue_name(change->queues.items[i], {"queues", i + 1});
    change->queues.count = core::canonical_set(change->queues.items, change->queues.count);
}

RoleChange change_arguments(FunctionCallInfo fcinfo) {
    const text *role = require_text(fcinfo, 0, "role");
    check_name(view(role), "role", NAMEDATALEN - 1, false);
    // Rejects the name "public", because GRANT treats it as PUBLIC even if it is quoted.
    if (view(role) == "public")
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("argument \"role\" must not be PUBLIC"),
                        errhint("Specify a role, because a profile cannot be granted to PUBLIC.")));
    RoleChange change = {};
    change.role = text_to_cstring(role);
    change.kind = kind_argument(fcinfo);
    change.schema = get_func_namespace(fcinfo->flinfo->fn_oid);
    read_queues(fcinfo, &change);
    return change;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_grant);
PGDLLEXPORT Datum jobq_grant(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const RoleChange change = change_arguments(fcinfo);
    with_spi([&] { grant_kind(change); });
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_revoke);
PGDLLEXPORT Datum jobq_revoke(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const RoleChange change = change_arguments(fcinfo);
    with_spi([&] { revoke_kind(change); });
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(jobq_may_use);
PGDLLEXPORT Datum jobq_may_use(PG_FUNCTION_ARGS) {
    const text *queue = require_text(fcinfo, 0, "queue");
    const char *function = text_to_cstring(require_text(fcinfo, 1, "call"));
    PG_RETURN_BOOL(with_spi([&] { return may_call(GetOuterUserId(), function, view(queue)); }));
}

}  // extern "C"

}  // namespace jobq
