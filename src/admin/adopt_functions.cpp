// Defines the SQL function jobq_adopt. After this function has been called in a copy of a database, the copy runs the
// jobs that it contains.
#include "compat/pg.h"

#include "compat/args.h"
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
    // Requests a round of the background worker, because the worker has ignored the jobs in the copy until now. Also
    // requests a recount, because the counters do not include jobs that were replicated to the copy.
    if (adopted) {
        announce_extension_at_commit();
        recount_at_commit();
    }
    PG_RETURN_BOOL(adopted);
}

}  // extern "C"

}  // namespace jobq
