// jobq_access().
#include "pg/pg.h"

#include "functions/result_set.h"
#include "pg/args.h"
#include "store/jobs_table.h"

namespace jobq {

extern "C" {

PG_FUNCTION_INFO_V1(jobq_access);
PGDLLEXPORT Datum jobq_access(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    const JobsAccess access = jobs_access();
    const char *reason = access.reason != nullptr ? access.reason : "nothing is attached to jobq.jobs that takes SQL";
    results.row({CStringGetTextDatum(access.by_sql ? "sql" : "direct"), CStringGetTextDatum(reason),
                 BoolGetDatum(!access.refused)});
    return results.done();
}

}  // extern "C"

}  // namespace jobq
