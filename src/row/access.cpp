// The SQL function jobq_access().
#include "compat/pg.h"

#include "compat/result_set.h"
#include "row/jobs_catalog.h"

namespace jobq {

extern "C" {

PG_FUNCTION_INFO_V1(jobq_access);
PGDLLEXPORT Datum jobq_access(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    // Opens the table so that the session reads the catalog again if the table has changed.
    table_close(open_jobs_relation(AccessShareLock), NoLock);
    const JobsAccess access = jobs_access();
    const char *reason =
        access.reason != nullptr ? access.reason : "nothing that is attached to jobq.jobs requires SQL";
    results.row({CStringGetTextDatum(access.by_sql ? "sql" : "direct"), CStringGetTextDatum(reason),
                 BoolGetDatum(!access.refused)});
    return results.done();
}

}  // extern "C"

}  // namespace jobq
