// See bridge.h. The only place where an exception of the core becomes a server error.
#include "pg/pg.h"

#include "pg/bridge.h"

namespace jobq {

void raise_core_failure(CoreFailure failure, const char *message) {
    if (failure == CoreFailure::OutOfMemory)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("jobq: out of memory")));
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("jobq: internal error: %s", message)));
    pg_unreachable();
}

}  // namespace jobq
