// jobq_adopt: makes a copy of a database run its jobs from now on.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "identity/identity.h"
#include "log/transaction_log.h"
#include "queues/scope.h"
#include "row/owner.h"

namespace jobq {

extern "C" {

PG_FUNCTION_INFO_V1(jobq_adopt);
PGDLLEXPORT Datum jobq_adopt(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    check_all_queues(fcinfo);
    const bool adopted = with_owner_spi([] { return adopt(); });
    // The worker has left the jobs alone, so it must look again. Jobs that were replicated to the copy have not been
    // counted.
    if (adopted) {
        announce_extension_at_commit();
        recount_at_commit();
    }
    PG_RETURN_BOOL(adopted);
}

}  // extern "C"

}  // namespace jobq
