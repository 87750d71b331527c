// See enqueue.h. Many rows are inserted with one call (row/jobs_table.h).
#include "compat/pg.h"

#include "compat/args.h"
#include "enqueue/enqueue.h"
#include "job/change_job.h"
#include "lanes/lanes.h"
#include "queues/directory.h"
#include "row/numbers.h"

namespace jobq {

namespace {

// Column values that are the same for all jobs of a call.
struct SharedColumns {
    const JobSpec &spec;
    int64 lane;
    TimestampTz now;
    bool round_robin;
};

// Adds a row for a job to the rows that the next call to insert_rows() inserts.
void add_job(JobsTable *jobs, const SharedColumns &shared, Datum payload, TimestampTz run_at, int16 priority,
             text *concurrency_key, text *group_key) {
    const JobSpec &spec = shared.spec;
    TupleTableSlot *row = add_row(&jobs->table);
    set_column(row, kJobId, Int64GetDatum(next_job_id()));
    set_column(row, kJobCreatedAt, TimestampTzGetDatum(shared.now));
    set_column(row, kJobLane, Int64GetDatum(shared.lane));
    set_column(row, kJobVersion, Int32GetDatum(spec.version));
    set_column(row, kJobPriority, Int16GetDatum(priority));
    set_column(row, kJobQueue, PointerGetDatum(spec.queue));
    set_column(row, kJobKind, PointerGetDatum(spec.kind));
    set_column(row, kJobPayload, payload);
    for (int i = 0; i < kOptionalAttributes; i++)
        if (spec.optional[i] != Datum(0)) set_column(row, kAttributes[i].column, spec.optional[i]);
    if (shared.round_robin) {
        const int64 round_robin_key =
            round_robin_key_of(concurrency_key == nullptr ? std::string_view() : view(concurrency_key));
        set_column(row, kJobRoundRobinKey, Int64GetDatum(round_robin_key));
    }
    if (concurrency_key != nullptr) set_column(row, kJobConcurrencyKey, PointerGetDatum(concurrency_key));
    if (group_key != nullptr) set_column(row, kJobGroupKey, PointerGetDatum(group_key));
    fill_life(row, life_of_new_job(spec, run_at, nullptr, group_key, shared.now));
}

}  // namespace

core::OptInt64 expiry_of(const JobSpec &spec, TimestampTz run_at) {
    if (spec.expires_at || spec.expires_in.value_or(0) == 0) return spec.expires_at;
    return core::saturating_add(run_at, *spec.expires_in);
}

// A job with dependencies or a group key is inserted as blocked. The promoter, not the producer, checks whether its
// dependencies have finished and whether it becomes the head of its group (groups/unblock.h).
core::Life life_of_new_job(const JobSpec &spec, TimestampTz run_at, const text *unique_key, const text *group_key,
                           TimestampTz now) {
    core::Life life = {};
    life.max_attempts = spec.max_attempts;
    life.has_key = unique_key != nullptr;
    life.steps = spec.last_step;
    if (group_key != nullptr) life.group = group_number(view(spec.queue), view(group_key));
    life.expires_at = expiry_of(spec, run_at);
    return core::enqueued(life, run_at, spec.depends_on_count > 0, now);
}

void insert_jobs(JobsTable *jobs, const JobSpec &spec, const JobColumns &columns, int count, TimestampTz now,
                 int64 *ids) {
    const SharedColumns shared = {
        spec, ensure_lane(view(spec.queue), view(spec.kind), spec.version, required_by(spec), limits_of(spec)), now,
        find_queue(view(spec.queue))->round_robin};
    for (int first = 0; first < count; first += kMaxAdded) {
        const int end = Min(first + kMaxAdded, count);
        for (int i = first; i < end; i++)
            add_job(jobs, shared, columns.payloads[i],
                    columns.run_ats == nullptr ? spec.run_at : DatumGetTimestampTz(columns.run_ats[i]),
                    columns.priorities == nullptr ? spec.priority
                                                  : static_cast<int16>(DatumGetInt32(columns.priorities[i])),
                    text_in(columns.concurrency_keys, spec.concurrency_key, i),
                    text_in(columns.group_keys, spec.group_key, i));
        insert_rows(&jobs->table);
        for (int i = first; i < end; i++) {
            // Logs the inserted version of the row, because a user-defined trigger might have changed the row.
            const JobState added = state_of_row(jobs->table.added[i - first]);
            log_new_job(added, true);
            ids[i] = added.id;
        }
    }
}

}  // namespace jobq
