// Collects samples of the current state of each queue from the counters. If the counters are unknown, reads the partial
// indexes, which contain only unfinished jobs. Never reads rows of finished jobs.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "leases/young_leases.h"
#include "metrics/counters.h"
#include "metrics/connected_workers.h"
#include "metrics/counts.h"
#include "metrics/samples.h"
#include "waiters/waiters.h"

#include <algorithm>

namespace jobq {

namespace {

// Counts the unfinished jobs of each queue. Used if the counters are unknown. Returns rows (queue, status, jobs). Does
// not count blocked jobs, because no index contains all of them. $1 contains the ids of running jobs that are not in
// the rescue index yet.
Statement count_unfinished = {
    R"(SELECT j.queue, 'pending', count(*) FROM jobq.jobs j WHERE j._ready GROUP BY j.queue
       UNION ALL
       SELECT j.queue, 'scheduled', count(*) FROM jobq.jobs j WHERE j._due AND j.status = 'scheduled' GROUP BY j.queue
       UNION ALL
       SELECT r.queue, 'processing', count(*) FROM (
           SELECT j.id, j.queue FROM jobq.jobs j WHERE j._rescue_indexed AND j.status = 'processing'
           UNION SELECT j.id, j.queue FROM jobq.jobs j WHERE j.id = ANY ($1) AND j.status = 'processing') r
       GROUP BY r.queue)",
    {INT8ARRAYOID}};

Statement get_paused = {"SELECT s.queue, s.paused FROM jobq.queue_settings s ORDER BY s.queue", {}};

// Counts the halted groups of each queue in which the queue or a kind has group_on_failure "halt". Reads the heads of
// groups only if there is such a queue.
Statement get_halted = {
    R"(WITH halted AS (SELECT j.queue, count(*) AS groups FROM jobq.jobs j
                       WHERE j._group_active IS NOT NULL AND j.status = 'failed'
                         AND (EXISTS (SELECT FROM jobq.queue_settings s WHERE s.group_on_failure = 'halt')
                              OR EXISTS (SELECT FROM jobq.kind_settings k WHERE k.group_on_failure = 'halt'))
                       GROUP BY j.queue)
       SELECT q.queue, coalesce(h.groups, 0)
       FROM (SELECT s.queue FROM jobq.queue_settings s WHERE s.group_on_failure = 'halt'
             UNION SELECT k.queue FROM jobq.kind_settings k WHERE k.group_on_failure = 'halt') q
            LEFT JOIN halted h ON h.queue = q.queue
       ORDER BY q.queue)",
    {}};

// Selects, for each queue, the number of workers that are running its jobs, and the oldest heartbeat of these jobs.
// Ignores the heartbeats of jobs that executors run, because executors need no heartbeats.
Statement get_running = {
    R"(SELECT r.queue, count(DISTINCT r.worker_id),
              min(r.last_heartbeat) FILTER (WHERE coalesce(r._lease_timeout < )" ENDLESS_LEASE R"(, true))
       FROM (SELECT j.id, j.queue, j.worker_id, j.last_heartbeat, j._lease_timeout FROM jobq.jobs j
             WHERE j._rescue_indexed AND j.status = 'processing'
             UNION
             SELECT j.id, j.queue, j.worker_id, j.last_heartbeat, j._lease_timeout FROM jobq.jobs j
             WHERE j.id = ANY ($1) AND j.status = 'processing') r
       GROUP BY r.queue ORDER BY r.queue)",
    {INT8ARRAYOID}};

// Returns the maximum number of queues that have separate samples. All other queues are combined into one sample.
int max_queues() { return settings.max_metric_series > 0 ? settings.max_metric_series : kDefaultMetricSeries; }

bool is_seen(const Samples &samples, std::string_view queue) {
    return samples.scope == nullptr || is_in_scope(samples.scope, queue);
}

std::string_view kept(std::string_view name) { return keep(CurrentMemoryContext, name); }

struct QueueJobs {
    std::string_view queue;
    int64 jobs[core::kJobStatusCount];
    bool known[core::kJobStatusCount];
};

int index_of(core::JobStatus status) { return static_cast<int>(status); }

void note_counter(const Samples &samples, const CountedQueue &counted, Notes<QueueJobs> *queues) {
    const std::string_view name = queue_view(counted.queue);
    if (!is_seen(samples, name)) return;
    QueueJobs one = {kept(name), {}, {}};
    for (int s = 0; s < core::kJobStatusCount; s++) {
        // The counter can be negative for a moment if the completion of a job is added to it before the job's claim.
        one.jobs[s] = Max(counted.jobs[s], 0);
        one.known[s] = true;
    }
    queues->add(one);
}

void note_rows(const Samples &samples, Notes<QueueJobs> *queues) {
    const Rows rows = read(count_unfinished, Params().add(unindexed_jobs()));
    for (uint64 i = 0; i < rows.size(); i++) {
        const std::string_view name = rows[i].text_at(1);
        if (!is_seen(samples, name)) continue;
        QueueJobs one = {kept(name), {}, {}};
        for (const core::JobStatus status :
             {core::JobStatus::Pending, core::JobStatus::Scheduled, core::JobStatus::Processing})
            one.known[index_of(status)] = true;
        core::JobStatus status = core::JobStatus::Pending;
        core::parse_status(rows[i].text_at(2), &status);
        one.jobs[index_of(status)] = rows[i].int64_at(3);
        queues->add(one);
    }
}

bool has_counters(const QueueJobs &queue) { return queue.known[index_of(core::JobStatus::Completed)]; }

// Sorts the entries by name and merges the entries of each queue. If a queue has an entry from counters, discards its
// entries from rows, because the counters are more complete.
void put_together(Notes<QueueJobs> *queues) {
    std::sort(queues->items, queues->items + queues->count, [](const QueueJobs &a, const QueueJobs &b) {
        return a.queue != b.queue ? a.queue < b.queue : has_counters(a) && !has_counters(b);
    });
    int count = 0;
    for (int i = 0; i < queues->count; i++) {
        const QueueJobs &one = queues->items[i];
        QueueJobs *known = count == 0 ? nullptr : &queues->items[count - 1];
        if (known == nullptr || known->queue != one.queue)
            queues->items[count++] = one;
        else if (!has_counters(*known))
            for (int s = 0; s < core::kJobStatusCount; s++) known->jobs[s] += one.jobs[s];
    }
    queues->count = count;
}

// Returns the number of jobs of each queue, ordered by name.
Notes<QueueJobs> count_jobs(const Samples &samples) {
    Notes<QueueJobs> queues = {};
    const CountedQueues counters = read_counters();
    for (int i = 0; counters.known && i < counters.count; i++) note_counter(samples, counters.queues[i], &queues);
    if (!counters.known || !counters.complete) note_rows(samples, &queues);
    put_together(&queues);
    return queues;
}

void add_jobs(Samples *samples, const QueueJobs &queue) {
    for (const core::StatusRow &row : core::kJobStatuses) {
        const int s = index_of(row.status);
        if (!queue.known[s]) continue;
        Sample sample = sample_of(core::Family::Jobs, static_cast<double>(queue.jobs[s]));
        sample.with("queue", queue.queue).with("status", row.label);
        samples->add(queue.queue.empty() ? sample.with("overflow", "true") : sample);
    }
}

void add_oldest_pending(Samples *samples, const QueueJobs &queue) {
    double seconds = 0;
    TimestampTz run_at = 0;
    // The counter can be ahead of the snapshot that oldest_ready() uses. This is harmless, because a job that was just
    // added is not old.
    if (queue.jobs[index_of(core::JobStatus::Pending)] > 0 && oldest_ready(make_text(queue.queue), &run_at))
        seconds = seconds_since(run_at);
    samples->add(sample_of(core::Family::OldestPending, seconds).with("queue", queue.queue));
}

void add_rest(QueueJobs *rest, const QueueJobs &queue) {
    for (int s = 0; s < core::kJobStatusCount; s++) {
        rest->jobs[s] += queue.jobs[s];
        rest->known[s] |= queue.known[s];
    }
}

void add_paused(Samples *samples) {
    const Rows rows = read(get_paused, Params());
    int left = max_queues();
    for (uint64 i = 0; i < rows.size(); i++) {
        const std::string_view name = rows[i].text_at(1);
        if (!is_seen(*samples, name) || left-- <= 0) continue;
        samples->add(sample_of(core::Family::Paused, rows[i].bool_at(2) ? 1 : 0).with("queue", kept(name)));
    }
}

void add_halted(Samples *samples) {
    const Rows rows = read(get_halted, Params());
    int left = max_queues();
    for (uint64 i = 0; i < rows.size(); i++) {
        const std::string_view name = rows[i].text_at(1);
        if (!is_seen(*samples, name) || left-- <= 0) continue;
        samples->add(
            sample_of(core::Family::HaltedGroups, static_cast<double>(rows[i].int64_at(2))).with("queue", kept(name)));
    }
}

void add_running(Samples *samples) {
    const Rows rows = read(get_running, Params().add(unindexed_jobs()));
    int left = max_queues();
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        if (!is_seen(*samples, row.text_at(1)) || left-- <= 0) continue;
        const std::string_view name = kept(row.text_at(1));
        samples->add(sample_of(core::Family::Workers, static_cast<double>(row.int64_at(2))).with("queue", name));
        if (row.is_null(3)) continue;
        const double age = seconds_since(DatumGetTimestampTz(row.get(3)));
        samples->add(sample_of(core::Family::OldestHeartbeat, age).with("queue", name));
    }
}

// Adds a sample for each queue for which any session waits. A session that waits for several queues counts for each of
// them, but only the names of queues with jobs, and of queues for which another session waits alone, are known.
void add_sleepers(Samples *samples, const Notes<QueueJobs> &queues) {
    int count;
    const QueueSleepers *sleepers = read_sleepers(&count);
    int left = max_queues();
    const auto add = [&](std::string_view name, int sessions) {
        if (sessions > 0 && is_seen(*samples, name) && left-- > 0)
            samples->add(sample_of(core::Family::Waiting, sessions).with("queue", name));
    };
    for (int i = 0; i < count; i++) {
        const std::string_view name = queue_view(sleepers[i].queue);
        add(name, count_sleepers(name).all);
    }
    for (int i = 0; i < queues.count; i++) {
        const SleeperCount found = count_sleepers(queues.items[i].queue);
        // If a session waits only for this queue, the first loop has already added the queue.
        if (found.all == found.several) add(queues.items[i].queue, found.all);
    }
}

// Adds the number of connected workers of each queue that has any. Of the queues that match a pattern of a worker, only
// queues with jobs are known.
void add_workers(Samples *samples, const Notes<QueueJobs> &known) {
    const ConnectedWorkers workers = connected_workers();
    Notes<std::string_view> served = {};
    for (int i = 0; i < workers.count; i++) {
        const Names &queues = workers.items[i].info.queues;
        const std::string_view *begin = queues.items, *end = begin + queues.count;
        for (const auto *queue = begin; queue < end; queue++)
            if (std::find(begin, queue, *queue) == queue && is_seen(*samples, *queue)) served.add(*queue);
        for (int q = 0; workers.items[i].info.patterns.count > 0 && q < known.count; q++) {
            const std::string_view queue = known.items[q].queue;
            if (std::find(begin, end, queue) == end && serves(workers.items[i], queue)) served.add(queue);
        }
    }
    std::sort(served.items, served.items + served.count);
    int left = max_queues();
    for (int i = 0; i < served.count && left > 0; left--) {
        const int begin = i;
        while (i < served.count && served.items[i] == served.items[begin]) i++;
        samples->add(sample_of(core::Family::ConnectedWorkers, i - begin).with("queue", kept(served.items[begin])));
    }
}

}  // namespace

void collect_queues(Samples *samples) {
    const Notes<QueueJobs> queues = count_jobs(*samples);
    QueueJobs rest = {};
    for (int i = 0; i < queues.count; i++) {
        if (i >= max_queues()) {
            add_rest(&rest, queues.items[i]);
            continue;
        }
        add_jobs(samples, queues.items[i]);
        add_oldest_pending(samples, queues.items[i]);
    }
    if (queues.count > max_queues()) add_jobs(samples, rest);
    add_paused(samples);
    add_halted(samples);
    add_running(samples);
    add_sleepers(samples, queues);
    add_workers(samples, queues);
}

}  // namespace jobq
