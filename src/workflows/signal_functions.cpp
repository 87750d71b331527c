// The SQL functions jobq_signal and jobq_signal_job.
#include "compat/pg.h"

#include "compat/args.h"
#include "log/rows.h"
#include "log/transaction_log.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "row/owner.h"
#include "steps/signals.h"
#include "steps/steps.h"
#include "workflows/step_arguments.h"

namespace jobq {

namespace {

// Locks a job against deletion and selects its status. Waits only for sessions that are deleting the job.
Statement hold = {"SELECT j.status::text FROM jobq.jobs j WHERE j.id = $1 AND " IN_SCOPE("$2") " FOR KEY SHARE",
                  {INT8OID, TEXTARRAYOID}};

bool is_unfinished(int64 job, const QueueScope *scope) {
    const Rows rows = run(hold, Params().add(Int64GetDatum(job)).add_if(scope != nullptr, scope_array(scope)));
    return rows.size() == 1 && !core::is_finished(status_at(rows[0], 1));
}

Datum payload_argument(FunctionCallInfo fcinfo, int n) {
    if (!given(fcinfo, n)) return Datum(0);
    check_step_size(PG_GETARG_DATUM(n), "payload");
    return PG_GETARG_DATUM(n);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_signal);
PGDLLEXPORT Datum jobq_signal(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = granted_queue(fcinfo, 0, "queue");
    text *event = event_argument(fcinfo, 1);
    const Datum payload = payload_argument(fcinfo, 2);
    require_known_queue(view(queue));
    PG_RETURN_BOOL(with_owner_spi([&] {
        const int64 id = add_signal(queue, event, given(fcinfo, 2), payload);
        if (id == 0) return false;
        log_unblocked(Blocker::Signal, id, kFromTheFirst);
        return true;
    }));
}

PG_FUNCTION_INFO_V1(jobq_signal_job);
PGDLLEXPORT Datum jobq_signal_job(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const int64 id = require_int64(fcinfo, 0, "job_id");
    text *event = event_argument(fcinfo, 1);
    const Datum payload = payload_argument(fcinfo, 2);
    const QueueScope *scope = scope_of(fcinfo);
    bool known = false;
    const bool is_new = with_owner_spi([&] {
        known = is_unfinished(id, scope);
        if (!known || !add_job_signal(id, event, given(fcinfo, 2), payload)) return false;
        log_unblocked(Blocker::Edge, -id);
        return true;
    });
    if (!known) PG_RETURN_NULL();
    PG_RETURN_BOOL(is_new);
}

}  // extern "C"

}  // namespace jobq
