// A function that the release after this one adds in a scratch repository (scripts/next_release.sh).
#include "compat/pg.h"

extern "C" {

PG_FUNCTION_INFO_V1(jobq_next);
PGDLLEXPORT Datum jobq_next(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0)) PG_RETURN_NULL();
    PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

}  // extern "C"
