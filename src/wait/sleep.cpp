// See sleep.h.
#include "compat/pg.h"

#include "compat/catalog_row.h"
#include "wait/sleep.h"

extern "C" {
#include "catalog/pg_proc.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/wait_event.h"

// Declared here because libpq/libpq.h, which declares this function, includes headers of libraries with which the
// server was built, and these headers might not be installed.
bool pq_check_connection(void);
}

#include <ctime>

namespace jobq {

void require_autocommit(FunctionCallInfo fcinfo, const char *name) {
    const bool may_commit = fcinfo->context != nullptr && IsA(fcinfo->context, CallContext) &&
                            !reinterpret_cast<CallContext *>(fcinfo->context)->atomic && !IsSubTransaction();
    if (may_commit) return;
    ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                    errmsg("%s() cannot be called inside a transaction block, a function, or an exception block", name),
                    errdetail("An open transaction would hold back vacuum during the wait."),
                    errhint("Call it in autocommit mode, as a statement of its own.")));
}

void lock_jobs_to_read() {
    const Oid jobs = get_relname_relid("jobs", get_namespace_oid("jobq", true));
    if (OidIsValid(jobs)) LockRelationOid(jobs, AccessShareLock);
}

Oid owner_of_procedure(Oid procedure, const char *name) {
    const Oid owner = catalog_value(PROCOID, procedure, &FormData_pg_proc::proowner, InvalidOid);
    if (!OidIsValid(owner))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("%s() was dropped while it waited", name),
                        errhint("If the extension has been created again, call the function again.")));
    return owner;
}

void check_client() {
    if (MyProcPort == nullptr || !WaitEventSetCanReportClosed() || pq_check_connection()) return;
    ClientConnectionLost = true;
    InterruptPending = true;
    CHECK_FOR_INTERRUPTS();
}

}  // namespace jobq
