// See counts.h. metrics/counters.h explains why a recount is exact.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/queue_name.h"
#include "lanes/lanes.h"
#include "lanes/ready_walk.h"
#include "leases/young_leases.h"
#include "log/logged.h"
#include "log/rows.h"
#include "metrics/counters.h"
#include "metrics/counts.h"
#include "row/job_scans.h"

#include <algorithm>

namespace jobq {

namespace {

#define COUNT_JOBS "SELECT j.queue, j.status::text, count(*) FROM jobq.jobs j "

Statement count_all = {COUNT_JOBS "GROUP BY j.queue, j.status ORDER BY j.queue", {}, Planning::Free};
// Counts the jobs of all queues except those in $1. Uses an anti-join, which the server can execute with a hash table.
// In contrast, "<> ALL" would compare each job with each name.
Statement count_others = {COUNT_JOBS
                          "WHERE NOT EXISTS (SELECT FROM pg_catalog.unnest($1) n(queue) WHERE n.queue = j.queue) "
                          "GROUP BY j.queue, j.status ORDER BY j.queue",
                          {TEXTARRAYOID},
                          Planning::Free};

// Counts the unfinished jobs of queue $1, using indexes that contain only such jobs. $2 contains the ids of running
// jobs that are not in the rescue index yet. The part that uses the column _due also finds jobs that wait with a
// timeout.
Statement count_unfinished = {
    R"(SELECT u.queue, u.status::text, count(*)
       FROM (SELECT j.queue, j.status FROM jobq.jobs j
             WHERE j._lane = ANY (ARRAY (SELECT d.lane FROM jobq.lane_directory d WHERE d.queue = $1))
               AND j._ready AND j.queue = $1
             UNION ALL
             SELECT j.queue, j.status FROM jobq.jobs j WHERE j._due AND j.queue = $1
             UNION ALL
             SELECT j.queue, j.status FROM jobq.jobs j WHERE j._group_waiting IS NOT NULL AND j.queue = $1
             UNION ALL
             SELECT j.queue, j.status
             FROM (SELECT d.job_id FROM jobq.edges d WHERE d.kind = 'depends' AND d.active
                   UNION SELECT s.job_id FROM jobq.steps s WHERE s._awaited IS NOT NULL) d,
                  LATERAL (SELECT j.queue, j.status FROM jobq.jobs j
                           WHERE j.id = ANY (ARRAY[d.job_id]) AND j.status = 'blocked' AND j._due IS NOT TRUE
                             AND j._group_waiting IS NULL AND j.queue = $1 OFFSET 0) j
             UNION ALL
             SELECT j.queue, j.status FROM jobq.jobs j
             WHERE j._rescue_indexed AND j.status = 'processing' AND j.queue = $1
             UNION ALL
             SELECT j.queue, j.status FROM jobq.jobs j
             WHERE j.id = ANY ($2) AND j._rescue_indexed IS NOT TRUE AND j.status = 'processing' AND j.queue = $1) u
       GROUP BY u.queue, u.status ORDER BY u.queue)",
    {TEXTOID, INT8ARRAYOID}};

// Selects all queues that have lanes or settings. A queue can have either without the other.
Statement get_queues = {
    R"(SELECT n.queue, bool_or(n.paused)
       FROM (SELECT d.queue, false AS paused FROM jobq.lane_directory d
             UNION ALL SELECT s.queue, s.paused FROM jobq.queue_settings s) n
       GROUP BY n.queue)",
    {},
    Planning::Free};

// Selects whether jobq.jobs, without its indexes and TOAST table, is larger than 64 MB. Counting the rows of a table of
// this size takes about 0.1 s.
Statement get_large = {"SELECT pg_catalog.pg_relation_size('jobq.jobs') > 67108864", {}, Planning::Free};

Statement get_lanes = {
    "SELECT DISTINCT d.lane FROM jobq.lane_directory d WHERE d.queue = $1 ORDER BY d.lane", {TEXTOID}, Planning::Free};

// Selects the oldest heartbeat of each queue, once among the running jobs in the rescue index, and once among the
// running jobs with the ids in $1, which are not in this index yet. Therefore, a queue can appear twice in the result.
// Excludes jobs of executors, because executors need no heartbeats.
Statement get_oldest_heartbeats = {
    R"(SELECT j.queue, min(j.last_heartbeat) FROM jobq.jobs j
       WHERE j._rescue_indexed AND j.status = 'processing'
         AND coalesce(j._lease_timeout < )" ENDLESS_LEASE R"(, true) GROUP BY j.queue
       UNION ALL
       SELECT j.queue, min(j.last_heartbeat) FROM jobq.jobs j
       WHERE j.id = ANY ($1) AND j.status = 'processing'
         AND coalesce(j._lease_timeout < )" ENDLESS_LEASE R"(, true) GROUP BY j.queue)",
    {INT8ARRAYOID}};

// Reads rows (queue, status, count), which are ordered by queue, and stores the counts. For each queue, add(name)
// returns the array for the counts, or nullptr to skip the queue.
template <typename Add>
void collect(const Rows &rows, Add add) {
    int64 *jobs = nullptr;
    for (uint64 i = 0; i < rows.size(); i++) {
        if (i == 0 || rows[i].text_at(1) != rows[i - 1].text_at(1)) jobs = add(rows[i].text_at(1));
        if (jobs != nullptr) jobs[static_cast<int>(status_at(rows[i], 2))] = rows[i].int64_at(3);
    }
}

void append_counted(const Rows &rows, QueueList *list) {
    collect(rows, [&](std::string_view queue) {
        list->add({queue});
        return list->items[list->count - 1].jobs;
    });
}

// Adds the uncommitted changes of this transaction to the numbers that come from counters. Numbers that come from
// counting rows already include these changes. `complete` means that a queue without counters has no jobs.
void add_own_changes(QueueList *list, bool complete) {
    for (const QueueChange &change : transaction_log().changes) {
        QueueNumbers *found = nullptr;
        for (int q = 0; q < list->count && found == nullptr; q++)
            if (list->items[q].queue == queue_view(change.queue)) found = &list->items[q];
        if (found == nullptr ? !complete : !found->counted) continue;
        if (found == nullptr) {
            list->add({.queue = queue_view(change.queue), .counted = true});
            found = &list->items[list->count - 1];
        }
        for (int s = 0; s < core::kJobStatusCount; s++) found->jobs[s] += change.counts.jobs[s];
    }
}

QueueList list_counters(const CountedQueues &counters) {
    QueueList list = {};
    for (int i = 0; i < counters.count; i++) {
        QueueNumbers added = {.queue = queue_view(counters.queues[i].queue), .counted = true};
        memcpy(added.jobs, counters.queues[i].jobs, sizeof(added.jobs));
        memcpy(added.rates, counters.queues[i].rates, sizeof(added.rates));
        list.add(added);
    }
    return list;
}

Datum names_of_list(const QueueList &list) {
    auto *names = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (list.count + 1), MCXT_ALLOC_HUGE));
    for (int i = 0; i < list.count; i++) names[i] = PointerGetDatum(make_text(list.items[i].queue));
    return array_of(names, list.count, TEXTOID);
}

struct Counted {
    Notes<QueueCount> queues;
    bool complete;
};

Counted count_table(Snapshot snapshot) {
    Counted counted = {{}, true};
    collect(read(count_all, Params(), snapshot), [&](std::string_view queue) -> int64 * {
        QueueCount added = {};
        if (!copy_queue(added.queue, queue)) {
            counted.complete = false;
            return nullptr;
        }
        counted.queues.add(added);
        return counted.queues.items[counted.queues.count - 1].jobs;
    });
    return counted;
}

// Stores the uncommitted changes of this transaction in QueueCount::own. The snapshot of the recount sees these
// changes, but they are added to the counters only when the transaction commits.
void note_own_changes(Counted *counted) {
    Notes<QueueCount> &queues = counted->queues;
    for (const QueueChange &change : transaction_log().changes) {
        QueueCount *found = nullptr;
        for (int q = 0; q < queues.count && found == nullptr; q++)
            if (same_queue(queues.items[q].queue, change.queue)) found = &queues.items[q];
        if (found == nullptr) {
            queues.add({});
            found = &queues.items[queues.count - 1];
            memcpy(found->queue, change.queue, sizeof(QueueName));
        }
        for (int s = 0; s < core::kJobStatusCount; s++) found->own[s] += change.counts.jobs[s];
    }
}

bool has_jobs(const QueueNumbers &queue) {
    return std::any_of(queue.jobs, queue.jobs + core::kJobStatusCount, [](int64 number) { return number != 0; });
}

// Returns the numbers of jobs in the queues that the view jobq.queues shows, and in queues whose jobs have no lane, for
// example because the jobs were replicated from another server.
QueueList list_names(QueueList *numbers, bool counted) {
    const auto by_name = [](const QueueNumbers &a, const QueueNumbers &b) { return a.queue < b.queue; };
    std::sort(numbers->items, numbers->items + numbers->count, by_name);
    const Rows names = read(get_queues, Params());
    QueueList list = {};
    for (uint64 i = 0; i < names.size(); i++) {
        QueueNumbers queue = {.queue = names[i].text_at(1), .counted = counted};
        const QueueNumbers *end = numbers->items + numbers->count;
        const QueueNumbers *found = std::lower_bound(numbers->items, numbers->items + numbers->count, queue, by_name);
        if (found != end && found->queue == queue.queue) queue = *found;
        queue.paused = names[i].bool_at(2);
        list.add(queue);
    }
    const int named = list.count;
    std::sort(list.items, list.items + named, by_name);
    for (const QueueNumbers *queue = numbers->items; queue < numbers->items + numbers->count; queue++)
        if (has_jobs(*queue) && !std::binary_search(list.items, list.items + named, *queue, by_name)) list.add(*queue);
    return list;
}

// Returns the due time of the oldest claimable job of a lane, or DT_NOEND if there is none. Reads only the first job of
// each priority, because jobs of the same priority are ordered by due time.
TimestampTz oldest_in_lane(JobsTable *jobs, int64 lane) {
    TimestampTz oldest = DT_NOEND;
    walk_priorities(jobs, lane, may_skip_empty_ranges(lane),
                    [&](const core::ClaimKey &key) { oldest = Min(oldest, key.run_at); });
    return oldest;
}

}  // namespace

QueueList read_queue_numbers() {
    const CountedQueues counters = read_counters();
    QueueList list = {};
    if (!counters.known || counts_unknown_here()) {
        append_counted(read(count_all, Params()), &list);
        return list_names(&list, false);
    }
    list = list_counters(counters);
    if (!counters.complete) append_counted(read(count_others, Params().add(names_of_list(list))), &list);
    add_own_changes(&list, counters.complete);
    return list_names(&list, counters.complete);
}

bool read_counted(std::string_view name, QueueNumbers *numbers) {
    const CountedQueues counters = read_counters();
    if (!counters.known || counts_unknown_here()) return false;
    CountedQueue *end = counters.queues + counters.count;
    CountedQueue *found = std::find_if(counters.queues, end,
                                       [&](const CountedQueue &counted) { return queue_view(counted.queue) == name; });
    if (found == end && !counters.complete) return false;
    *numbers = {.queue = name, .counted = true};
    if (found != end) memcpy(numbers->jobs, found->jobs, sizeof(numbers->jobs));
    for (const QueueChange &change : transaction_log().changes) {
        if (queue_view(change.queue) != name) continue;
        for (int s = 0; s < core::kJobStatusCount; s++) numbers->jobs[s] += change.counts.jobs[s];
    }
    return true;
}

QueueNumbers read_unfinished(std::string_view name) {
    QueueNumbers numbers = {name};
    if (read_counted(name, &numbers)) return numbers;
    collect(read(count_unfinished, Params().add(PointerGetDatum(make_text(name))).add(unindexed_jobs())),
            [&](std::string_view) { return numbers.jobs; });
    return numbers;
}

DutyOutcome reconcile_counters() {
    DutyOutcome outcome = {};
    if (counts_unknown_here() || !recount_due_by_hand(GetCurrentTimestamp())) return outcome;
    Snapshot snapshot = begin_recount();
    if (snapshot == nullptr) return outcome;
    Counted counted = count_table(snapshot);
    UnregisterSnapshot(snapshot);
    note_own_changes(&counted);
    outcome.done = end_recount(counted.queues.items, counted.queues.count, counted.complete);
    return outcome;
}

bool table_is_large() { return run(get_large, Params())[0].bool_at(1); }

bool oldest_ready(text *queue, TimestampTz *run_at) {
    const Rows lanes = read(get_lanes, Params().add(PointerGetDatum(queue)));
    auto *ids = allocate_array<int64>(lanes.size());
    for (uint64 i = 0; i < lanes.size(); i++) ids[i] = lanes[i].int64_at(1);
    *run_at = DT_NOEND;
    JobsTable jobs;
    open_jobs_for_reading(&jobs);
    const int count = static_cast<int>(lanes.size());
    if (count <= kFewLanes) {
        for (int i = 0; i < count; i++) *run_at = Min(*run_at, oldest_in_lane(&jobs, ids[i]));
    } else {
        LaneWalk walk = {ids, count, 0};
        int64 lane;
        core::ClaimKey first;
        while (next_lane_with_entries(&jobs, &walk, &lane, &first)) *run_at = Min(*run_at, oldest_in_lane(&jobs, lane));
    }
    close_jobs_for_reading(&jobs);
    return *run_at != DT_NOEND;
}

Rows oldest_heartbeats() { return read(get_oldest_heartbeats, Params().add(unindexed_jobs())); }

}  // namespace jobq
