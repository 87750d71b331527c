// The SQL functions that the view jobq.queue_stats calls: numbers of jobs, rates, and ages.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/spi.h"
#include "core/clock.h"
#include "core/job.h"
#include "lanes/empty_ranges.h"
#include "metrics/counts.h"
#include "row/jobs_table.h"

namespace jobq {

extern "C" {

PG_FUNCTION_INFO_V1(jobq_queue_counters);
PGDLLEXPORT Datum jobq_queue_counters(PG_FUNCTION_ARGS) {
    constexpr int kColumns = 1 + core::kJobStatusCount + core::kEventCount + 2;
    ResultSet results(fcinfo);
    with_spi([&] {
        const QueueList list = read_queue_numbers();
        for (int i = 0; i < list.count; i++) {
            const QueueNumbers &queue = list.items[i];
            Datum values[kColumns];
            bool nulls[kColumns] = {};
            int column = 0;
            values[column++] = PointerGetDatum(make_text(queue.queue));
            // The counter can be negative for a moment if the completion of a job is added to it before the job's
            // claim.
            for (const int64 jobs : queue.jobs) values[column++] = Int64GetDatum(Max(jobs, 0));
            for (const double rate : queue.rates) {
                nulls[column] = !queue.counted;
                values[column++] = Float8GetDatum(rate);
            }
            values[column++] = BoolGetDatum(queue.paused);
            values[column] = CStringGetTextDatum(queue.counted ? "counters" : "rows");
            results.row(values, nulls);
        }
    });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_oldest_pending_age);
PGDLLEXPORT Datum jobq_oldest_pending_age(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0)) PG_RETURN_NULL();
    text *queue = PG_GETARG_TEXT_PP(0);
    TimestampTz run_at = 0;
    if (!with_spi([&] { return oldest_ready(queue, &run_at); })) PG_RETURN_NULL();
    return DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(GetCurrentTimestamp()),
                               TimestampTzGetDatum(core::bounded_moment(run_at)));
}

PG_FUNCTION_INFO_V1(jobq_oldest_heartbeats);
PGDLLEXPORT Datum jobq_oldest_heartbeats(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    with_spi([&] { results.rows(oldest_heartbeats()); });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_tracked_lanes);
PGDLLEXPORT Datum jobq_tracked_lanes(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    auto *held = static_cast<TrackedLane *>(palloc(sizeof(TrackedLane) * Max(max_tracked_lanes(), 1)));
    const int count = tracked_lanes(trigger_epoch(), held, max_tracked_lanes());
    for (const TrackedLane *lane = held; lane < held + count; lane++) {
        if (lane->lane.space != core::KeySpace::Claimable) continue;
        const bool anywhere = lane->first == core::kFirstKey;
        const bool nowhere = lane->first == core::kLastKey;
        const bool unknown = anywhere || nowhere;
        const Datum values[] = {Int64GetDatum(lane->lane.lane),
                                Int16GetDatum(lane->first.priority),
                                TimestampTzGetDatum(lane->first.run_at),
                                Int64GetDatum(lane->first.id),
                                BoolGetDatum(nowhere),
                                Int32GetDatum(lane->ranges),
                                TimestampTzGetDatum(lane->refreshed_at)};
        const bool nulls[] = {false, unknown, unknown, unknown, false, false, false};
        results.row(values, nulls);
    }
    return results.done();
}

}  // extern "C"

}  // namespace jobq
