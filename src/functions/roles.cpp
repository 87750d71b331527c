// jobq_grant and jobq_revoke: what a producer, a worker, an operator and a monitor may do.
// They run with the rights of the caller, so only who may GRANT can grant.
#include "pg/pg.h"

#include "pg/args.h"
#include "pg/spi.h"
#include "store/roles.h"

namespace jobq {

namespace {

RoleKind kind_argument(FunctionCallInfo fcinfo) {
    const text *what = require_text(fcinfo, 1, "what");
    RoleKind kind;
    if (parse_role_kind(view(what), &kind)) return kind;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"what\" has no such choice: \"%s\"", text_to_cstring(what)),
                    errhint("Use 'producer', 'worker', 'operator' or 'monitor'.")));
    pg_unreachable();
}

Datum change(FunctionCallInfo fcinfo, bool grant) {
    const text *role = require_text(fcinfo, 0, "role");
    check_name(view(role), "role", NAMEDATALEN - 1, false);
    // Even quoted, GRANT takes this name for everybody.
    if (view(role) == "public")
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("argument \"role\" must not be PUBLIC"),
                        errhint("A role that may call every function is an operator, whatever its name says.")));
    const RoleKind kind = kind_argument(fcinfo);
    const Oid own_function = fcinfo->flinfo->fn_oid;
    with_spi([&] { change_privileges(text_to_cstring(role), kind, grant, get_func_namespace(own_function)); });
    PG_RETURN_VOID();
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_grant);
PGDLLEXPORT Datum jobq_grant(PG_FUNCTION_ARGS) { return change(fcinfo, true); }

PG_FUNCTION_INFO_V1(jobq_revoke);
PGDLLEXPORT Datum jobq_revoke(PG_FUNCTION_ARGS) { return change(fcinfo, false); }

}  // extern "C"

}  // namespace jobq
