// See status.h.
#include "compat/pg.h"

#include "row/status.h"

namespace jobq {

Oid status_type() {
    const Oid schema = get_namespace_oid("jobq", false);
    return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("job_status"), ObjectIdGetDatum(schema));
}

Datum status_datum(core::JobStatus status) {
    return DirectFunctionCall2(enum_in, CStringGetDatum(core::status_name(status)), ObjectIdGetDatum(status_type()));
}

core::JobStatus status_of(Datum value) {
    core::JobStatus status;
    const char *label = DatumGetCString(DirectFunctionCall1(enum_out, value));
    if (!core::parse_status(label, &status)) elog(ERROR, "jobq: unknown job status \"%s\"", label);
    return status;
}

}  // namespace jobq
