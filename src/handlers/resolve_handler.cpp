// Checks whether a handler can run with its current function, role, privileges, and settings. If it cannot run,
// jobq_set_handler rejects the handler, the view jobq.handlers shows the reason, and executors claim no jobs for the
// handler.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "compat/rights.h"
#include "compat/settings.h"
#include "handlers/handler.h"

extern "C" {
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_namespace_d.h"
#include "catalog/pg_proc.h"
#include "commands/dbcommands.h"
#include "utils/regproc.h"
#include "utils/varlena.h"
}

namespace jobq {

namespace {

constexpr Problem kNone = {0, nullptr, nullptr};

Problem problem(int sqlstate, const char *message, const char *hint) { return {sqlstate, message, hint}; }

// Returns the function that has this name and one jsonb argument, or InvalidOid if there is none.
Oid find_function(const char *name) {
    List *names = NIL;
    if (!SplitIdentifierString(pstrdup(name), '.', &names) || list_length(names) != 2) return InvalidOid;
    const Oid space = get_namespace_oid(static_cast<const char *>(linitial(names)), true);
    const Oid argument = JSONBOID;
    return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
                           CStringGetDatum(static_cast<const char *>(lsecond(names))),
                           PointerGetDatum(buildoidvector(&argument, 1)), ObjectIdGetDatum(space));
}

Problem check_role(const char *name, Oid *role) {
    *role = get_role_oid(name, true);
    if (!OidIsValid(*role))
        return problem(ERRCODE_UNDEFINED_OBJECT, psprintf("role \"%s\" does not exist", name),
                       "Create the role, or specify another role with jobq_set_handler().");
    if (superuser_arg(*role) && !settings.superuser_handlers)
        return problem(ERRCODE_INSUFFICIENT_PRIVILEGE, psprintf("role \"%s\" is a superuser", name),
                       "Use a role that is not a superuser, or enable \"jobq.superuser_handlers\".");
    if (!kRunsWithoutLogin && !catalog_value(AUTHOID, *role, &FormData_pg_authid::rolcanlogin, false))
        return problem(ERRCODE_INSUFFICIENT_PRIVILEGE, psprintf("role \"%s\" is not permitted to log in", name),
                       "Run ALTER ROLE ... LOGIN, which PostgreSQL 17 and newer do not require.");
    if (pg_database_aclcheck(MyDatabaseId, *role, ACL_CONNECT) != ACLCHECK_OK)
        return problem(ERRCODE_INSUFFICIENT_PRIVILEGE,
                       psprintf("role \"%s\" is not permitted to connect to database \"%s\"", name,
                                get_database_name(MyDatabaseId)),
                       "Run GRANT CONNECT ON DATABASE ... for the role.");
    return kNone;
}

Problem check_kind(const char *name, Oid function, HandlerTarget *target) {
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    if (!HeapTupleIsValid(tuple))
        return problem(ERRCODE_UNDEFINED_FUNCTION, psprintf("function %s(jsonb) does not exist", name),
                       "Create the function, or specify another one with jobq_set_handler().");
    const auto *form = reinterpret_cast<FormData_pg_proc *>(GETSTRUCT(tuple));
    const bool takes_json = form->pronargs == 1 && form->proargtypes.values[0] == JSONBOID;
    target->is_procedure = form->prokind == PROKIND_PROCEDURE;
    target->returns_json = form->prorettype == JSONBOID;
    const bool returns = form->prorettype == VOIDOID || (target->returns_json && !target->is_procedure);
    const bool fits = takes_json && returns && !form->proretset &&
                      (form->prokind == PROKIND_FUNCTION || form->prokind == PROKIND_PROCEDURE);
    ReleaseSysCache(tuple);
    if (fits) return kNone;
    return problem(ERRCODE_INVALID_FUNCTION_DEFINITION,
                   psprintf("function %s cannot be a handler", format_procedure(function)),
                   "A handler must be a function that takes one jsonb argument and returns jsonb or void, or a "
                   "procedure that takes one jsonb argument.");
}

Problem check_rights(const char *name, const char *role_name, Oid function, Oid role) {
    const Oid schema = get_func_namespace(function);
    if (pg_namespace_aclcheck(schema, role, ACL_USAGE) != ACLCHECK_OK)
        return problem(ERRCODE_INSUFFICIENT_PRIVILEGE,
                       psprintf("role \"%s\" does not have the USAGE privilege on schema \"%s\"", role_name,
                                get_namespace_name(schema)),
                       "Run GRANT USAGE ON SCHEMA ... for the role.");
    if (pg_proc_aclcheck(function, role, ACL_EXECUTE) != ACLCHECK_OK)
        return problem(ERRCODE_INSUFFICIENT_PRIVILEGE,
                       psprintf("role \"%s\" does not have the EXECUTE privilege on %s(jsonb)", role_name, name),
                       "Run GRANT EXECUTE ON ROUTINE ... for the role.");
    return kNone;
}

// Checks whether the role is allowed to set the settings of the handler.
Problem check_settings(const Handler &handler, Oid role) {
    Problem found = kNone;
    if (handler.bad_setting != nullptr)
        return problem(ERRCODE_INVALID_PARAMETER_VALUE, handler.bad_setting, kSettingHint);
    if (handler.setting_count == 0) return found;
    as_role(role, [&] {
        for (int i = 0; i < handler.setting_count && found.sqlstate == 0; i++) {
            const HandlerSetting &setting = handler.settings[i];
            if (set_config_option(setting.name, setting.value, superuser_arg(role) ? PGC_SUSET : PGC_USERSET,
                                  PGC_S_SESSION, GUC_ACTION_SAVE, false, DEBUG5, false) == 0)
                found = problem(
                    ERRCODE_INVALID_PARAMETER_VALUE,
                    psprintf("role \"%s\" cannot set \"%s\" to \"%s\"", handler.run_as, setting.name, setting.value),
                    "Use a value that SET accepts in a session of the role.");
        }
    });
    return found;
}

}  // namespace

Problem resolve_handler(const Handler &handler, HandlerTarget *target) {
    *target = {};
    Problem found = check_role(handler.run_as, &target->role);
    if (found.sqlstate != 0) return found;
    target->function = find_function(handler.function);
    found = check_kind(handler.function, target->function, target);
    if (found.sqlstate != 0) return found;
    found = check_rights(handler.function, handler.run_as, target->function, target->role);
    if (found.sqlstate != 0) return found;
    return check_settings(handler, target->role);
}

}  // namespace jobq
