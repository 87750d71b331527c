// The SQL functions jobq_explain and jobq_explain_queue.
#include "compat/pg.h"

#include "admin/explain.h"
#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "queues/granted.h"
#include "row/owner.h"

namespace jobq {

extern "C" {

PG_FUNCTION_INFO_V1(jobq_explain);
PGDLLEXPORT Datum jobq_explain(PG_FUNCTION_ARGS) {
    const int64 id = require_int64(fcinfo, 0, "job_id");
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    ReasonSink sink = {&results};
    with_owner_spi([&] {
        if (explain_unreadable(&sink) || !job_is_in_scope(scope, id)) return;
        explain_job(id, GetCurrentTimestamp(), &sink);
        explain_batch(id, &sink);
    });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_explain_queue);
PGDLLEXPORT Datum jobq_explain_queue(PG_FUNCTION_ARGS) {
    const text *queue = granted_queue(fcinfo, 0, "queue");
    ResultSet results(fcinfo);
    ReasonSink sink = {&results};
    with_owner_spi([&] {
        if (!explain_unreadable(&sink)) explain_queue(view(queue), GetCurrentTimestamp(), &sink);
    });
    return results.done();
}

}  // extern "C"

}  // namespace jobq
