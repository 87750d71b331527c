// See workers_wanted.h.
#include "compat/pg.h"

#include "admin/reasons.h"
#include "admin/workers_wanted.h"
#include "admin/workers_wanted_policy.h"
#include "compat/args.h"
#include "leases/lease_sql.h"
#include "leases/young_leases.h"
#include "limits/limit_settings.h"
#include "limits/limit_state.h"
#include "limits/limiter.h"
#include "metrics/counts.h"
#include "metrics/totals.h"
#include "row/limit_names.h"

#include <algorithm>
#include <limits>

namespace jobq {

namespace {

// Maximum number of lanes whose jobs are counted.
constexpr int64 kLanes = 100;
// Maximum number of concurrency keys whose jobs are counted.
constexpr int64 kKeys = 1000;
// Maximum number of jobs that are counted per lane or key.
constexpr int64 kCountedJobs = 1000;
// Maximum number of jobs of a lane that are read to find jobs without a concurrency key.
constexpr int64 kSearchedJobs = 10000;
constexpr int64 kNoLimit = std::numeric_limits<int64>::max() / 2;

// The lanes of queue $1 that have claimable jobs which need a worker, because no handler runs them.
#define LANES_FOR_WORKERS                                                                              \
    "(SELECT DISTINCT ON (d.lane) d.lane, d.kind, d.limits"                                            \
    " FROM (SELECT d.lane, d.kind, d.limits FROM jobq.lane_directory d WHERE d.queue = $1 OFFSET 0) d" \
    " WHERE NOT EXISTS (SELECT FROM jobq.handler_settings h WHERE h.queue = $1 AND h.kind = d.kind)"   \
    " AND EXISTS (SELECT FROM jobq.jobs j WHERE j._lane = d.lane AND j._ready)"                        \
    " ORDER BY d.lane LIMIT $2)"
#define IN_CLAIM_ORDER " ORDER BY j._lane, j.priority, j.run_at, j.id LIMIT "

// count_lanes counts the claimable jobs of each lane, up to $3. count_keyless counts only jobs without a concurrency
// key among the first $4 jobs of a lane. The last column is true if further jobs were not read.
Statement count_lanes = {
    "SELECT l.kind, l.limits, NULL::text, n.jobs, false FROM " LANES_FOR_WORKERS
    R"( l, LATERAL (SELECT count(*) AS jobs FROM (SELECT FROM jobq.jobs j WHERE j._lane = l.lane AND j._ready)" IN_CLAIM_ORDER
    "$3) j) n",
    {TEXTOID, INT8OID, INT8OID}};
Statement count_keyless = {
    "SELECT l.kind, l.limits, NULL::text, n.jobs, n.jobs < $3 AND $4 <= (SELECT count(*)"
    " FROM (SELECT FROM jobq.jobs j WHERE j._lane = l.lane AND j._ready LIMIT $4) j) FROM " LANES_FOR_WORKERS
    R"( l, LATERAL (SELECT count(*) AS jobs
                    FROM (SELECT FROM (SELECT j.concurrency_key FROM jobq.jobs j WHERE j._lane = l.lane AND j._ready)" IN_CLAIM_ORDER
    "$4) j WHERE j.concurrency_key IS NULL LIMIT $3) j) n",
    {TEXTOID, INT8OID, INT8OID, INT8OID}};
// Counts the claimable jobs of each lane and concurrency key, up to $3. Each step of the recursion looks up the next
// key in the index.
#define NEXT_KEY(condition)                                       \
    "(SELECT j.concurrency_key FROM jobq.jobs j WHERE " condition \
    " AND j.concurrency_key IS NOT NULL AND j._ready"             \
    " ORDER BY j._lane, j.concurrency_key COLLATE \"C\" LIMIT 1)"
Statement count_keys = {
    R"(WITH RECURSIVE keys(lane, kind, limits, key) AS (
           SELECT l.lane, l.kind, l.limits, )" NEXT_KEY("j._lane = l.lane") " FROM " LANES_FOR_WORKERS R"( l
           UNION ALL
           SELECT k.lane, k.kind, k.limits, )" NEXT_KEY(
        R"(j._lane = k.lane AND j.concurrency_key COLLATE "C" > k.key)") R"(
           FROM keys k WHERE k.key IS NOT NULL)
       SELECT k.kind, k.limits, k.key, n.jobs, false
       FROM (SELECT k.lane, k.kind, k.limits, k.key FROM keys k WHERE k.key IS NOT NULL LIMIT $4) k,
            LATERAL (SELECT count(*) AS jobs
                     FROM (SELECT FROM jobq.jobs j
                           WHERE j._lane = k.lane AND j.concurrency_key COLLATE "C" = k.key
                             AND j.concurrency_key IS NOT NULL AND j._ready LIMIT $3) j) n)",
    {TEXTOID, INT8OID, INT8OID, INT8OID}};

// Counts the queue's running jobs, without the jobs that handlers run. $2 contains the ids of running jobs that are not
// in the rescue index yet.
Statement count_running = {
    R"(SELECT count(*) FROM (SELECT j.id, j.queue, j._lease_timeout FROM jobq.jobs j
                             WHERE j._rescue_indexed AND j.status = 'processing'
                             UNION
                             SELECT j.id, j.queue, j._lease_timeout FROM jobq.jobs j
                             WHERE j.id = ANY ($2) AND j.status = 'processing') j
       WHERE j.queue = $1 AND )" BY_EXECUTOR " IS NOT TRUE",
    {TEXTOID, INT8ARRAYOID}};

Statement find_handler = {"SELECT 1 FROM jobq.handler_settings h WHERE h.queue = $1 LIMIT 1", {TEXTOID}};

struct Subject {
    std::string_view name;
    text *queue_text;
    const Queue *queue;
    core::Micros target;
    TimestampTz now;
};

// How many more jobs can start under a limit.
struct LimitRoom {
    SlotOf of;
    std::string_view name;
    int64 left;
};

int64 free_slots(const Subject &subject, const QueueLimit &limit, SlotOf of, std::string_view name) {
    if (limit.max_running < 0) return kNoLimit;
    return Max(limit.max_running - running_under({subject.queue_text, of, make_text(name)}), 0);
}

// Returns how many jobs can start within the target under the rate of the limit.
int64 starts_within(const Subject &subject, const QueueLimit &limit, SlotOf of, std::string_view name) {
    if (limit.rate.interval == 0 || !shared_memory_ready()) return kNoLimit;
    const int64 id = limit_id(of, subject.name, name);
    TimestampTz next;
    return peek_tokens(id, bucket_owner(limit, id, subject.name), limit.rate, subject.now, &next) +
           subject.target / limit.rate.interval;
}

// Returns the room of the limit that applies to a key or a kind, or that has this name, or nullptr if there is no such
// limit.
LimitRoom *room_of(const Subject &subject, SlotOf of, std::string_view name, Notes<LimitRoom> *known) {
    const QueueLimit *limit = find_limit(*subject.queue, of, name);
    if (limit == nullptr) return nullptr;
    LimitRoom *end = known->items + known->count;
    LimitRoom *found =
        std::find_if(known->items, end, [&](const LimitRoom &room) { return room.of == of && room.name == name; });
    if (found == end) {
        known->add({of, name, Min(free_slots(subject, *limit, of, name), starts_within(subject, *limit, of, name))});
        found = known->items + known->count - 1;
    }
    return found;
}

// Adds the jobs in a row of count_lanes, count_keyless, or count_keys that can start at the same time as the jobs that
// have been added before.
void add_startable(const Subject &subject, const Row &row, Notes<LimitRoom> *known, int64 *startable) {
    int at[1 + 1 + core::kMaxLimitsOfJob];
    int count = 0;
    int64 jobs = row.int64_at(4);
    const auto apply = [&](SlotOf of, std::string_view name) {
        const LimitRoom *room = room_of(subject, of, name, known);
        if (room == nullptr) return;
        jobs = Min(jobs, room->left);
        at[count++] = static_cast<int>(room - known->items);
    };
    apply(SlotOf::Kind, row.text_at(1));
    if (!row.is_null(2)) {
        const LimitNames names = names_in_limits(DatumGetArrayTypeP(row.get(2)));
        for (int i = 0; i < names.count; i++) apply(SlotOf::Named1, names.items[i]);
    }
    if (!row.is_null(3)) apply(SlotOf::Key, row.text_at(3));
    for (int i = 0; i < count; i++) known->items[at[i]].left -= jobs;
    *startable += jobs;
}

// Returns how many claimable jobs can start at the same time under the limits of keys and kinds and the named limits.
// The result is exact up to `needed`, except that some lanes, keys, and jobs are left out if there are many. In that
// case, the result is at least 1, so that an autoscaler starts a worker, which finds the jobs.
int64 startable_jobs(const Subject &subject, int64 needed) {
    const bool by_key = key_limit_count(*subject.queue) > (limit_of_queue(*subject.queue) != nullptr ? 1 : 0);
    if (!by_key && subject.queue->kind_limit_count == 0 && subject.queue->named_limit_count == 0) return kNoLimit;
    Notes<LimitRoom> known = {};
    int64 startable = 0;
    bool is_complete = true;
    const auto add = [&](Statement &statement, uint64 most_rows, int64 bound) {
        Params params;
        params.add(PointerGetDatum(subject.queue_text))
            .add(Int64GetDatum(kLanes))
            .add(Int64GetDatum(Min(needed, kCountedJobs)));
        if (bound > 0) params.add(Int64GetDatum(bound));
        const Rows rows = read(statement, params);
        is_complete = is_complete && rows.size() < most_rows;
        for (uint64 i = 0; i < rows.size() && startable < needed; i++) {
            add_startable(subject, rows[i], &known, &startable);
            is_complete = is_complete && !rows[i].bool_at(5);
        }
    };
    if (by_key) {
        add(count_keyless, kLanes, kSearchedJobs);
        if (startable < needed) add(count_keys, kKeys, kKeys);
    } else {
        add(count_lanes, kLanes, 0);
    }
    return is_complete ? startable : Max(startable, 1);
}

// Returns the mean running time of the queue's jobs since the totals were last reset, or 0 if none has ended.
core::Micros mean_duration(std::string_view queue) {
    const Totals totals = read_totals();
    int64 sum = 0, count = 0;
    for (int i = 0; i < totals.count; i++) {
        const Series &series = totals.series[i];
        if (series.name.queue() != queue) continue;
        sum = core::sum_of_numbers(sum, series.numbers.values[core::SeriesNumbers::sum_of(core::Span::Run)]);
        for (int bucket = 0; bucket < core::kBuckets; bucket++)
            count += series.numbers.values[core::SeriesNumbers::of(core::Span::Run, bucket)];
    }
    return count == 0 ? 0 : Max(sum / count, 1);
}

void count_jobs_for_workers(const Subject &subject, core::Workload *load) {
    const Params queue = Params().add(PointerGetDatum(subject.queue_text));
    QueueNumbers numbers;
    if (read(find_handler, queue).size() == 0 && read_counted(subject.name, &numbers)) {
        load->pending = Max(numbers.jobs[static_cast<int>(core::JobStatus::Pending)], 0);
        load->running = Max(numbers.jobs[static_cast<int>(core::JobStatus::Processing)], 0);
        return;
    }
    const Rows lanes = read(count_lanes, Params(queue).add(Int64GetDatum(kLanes)).add(Int64GetDatum(kCountedJobs)));
    for (uint64 i = 0; i < lanes.size(); i++) load->pending += lanes[i].int64_at(4);
    load->running = read(count_running, Params(queue).add(unindexed_jobs()))[0].int64_at(1);
}

}  // namespace

int32 workers_wanted(const WorkersRequest &request, TimestampTz now) {
    text *queue_text = make_text(request.queue);
    const Queue queue = *find_queue(request.queue);
    const Subject subject = {request.queue, queue_text, &queue, request.target, now};
    core::Workload load = {0, 0, 0, request.target, false};
    count_jobs_for_workers(subject, &load);
    ReasonSink silent;
    core::Room room = {0, 0};
    if (!queue.paused && !explain_refusal(&silent)) {
        load.duration = request.duration > 0 ? request.duration : mean_duration(request.queue);
        if (load.duration == 0) load.duration = request.target;
        TimestampTz oldest = DT_NOEND;
        load.overdue = load.pending > 0 && oldest_ready(queue_text, &oldest) && now - oldest > request.target;
        const int64 needed = core::slots_needed(load) - load.running;
        const QueueLimit *limit = limit_of_queue(queue);
        room = {needed <= 0 ? 0 : startable_jobs(subject, needed), kNoLimit};
        if (limit != nullptr) {
            room.at_once = Min(room.at_once, free_slots(subject, *limit, SlotOf::Queue, {}));
            room.starts = starts_within(subject, *limit, SlotOf::Queue, {});
        }
    }
    return core::workers_for(core::slots_wanted(load, room), request.slots);
}

}  // namespace jobq
