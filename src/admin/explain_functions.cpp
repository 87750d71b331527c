// The SQL functions jobq_explain and jobq_explain_queue.
#include "compat/pg.h"

#include "admin/explain.h"
#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "queues/granted.h"
#include "row/owner.h"

namespace jobq {

namespace {

// A sink that returns each reason as a row of the SQL function.
class ReasonRows : public ReasonSink {
 public:
    explicit ReasonRows(ResultSet *results) : results_(results) {}
    void take(const Reason &reason) override {
        const Datum values[] = {CStringGetTextDatum(reason_name(reason.kind)), CStringGetTextDatum(reason.detail),
                                reason.jobs, reason.pids, TimestampTzGetDatum(reason.until)};
        const bool nulls[] = {false, false, reason.jobs == 0, reason.pids == 0, reason.until == DT_NOEND};
        results_->row(values, nulls);
    }

 private:
    ResultSet *results_;
};

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_explain);
PGDLLEXPORT Datum jobq_explain(PG_FUNCTION_ARGS) {
    const int64 id = require_int64(fcinfo, 0, "job_id");
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    ReasonRows rows(&results);
    with_owner_spi([&] {
        if (!explain_unreadable(&rows) && job_is_in_scope(scope, id)) explain_job(id, GetCurrentTimestamp(), &rows);
    });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_explain_queue);
PGDLLEXPORT Datum jobq_explain_queue(PG_FUNCTION_ARGS) {
    const text *queue = granted_queue(fcinfo, 0, "queue");
    ResultSet results(fcinfo);
    ReasonRows rows(&results);
    with_owner_spi([&] {
        if (!explain_unreadable(&rows)) explain_queue(view(queue), GetCurrentTimestamp(), &rows);
    });
    return results.done();
}

}  // extern "C"

}  // namespace jobq
