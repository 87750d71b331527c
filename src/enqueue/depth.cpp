// See depth.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "core/backpressure.h"
#include "enqueue/depth.h"
#include "finish/ending.h"
#include "job/change_job.h"
#include "lanes/lanes.h"
#include "lanes/ready_walk.h"
#include "lanes/refresh.h"
#include "log/rows.h"
#include "log/transaction_log.h"
#include "metrics/counters.h"
#include "queues/directory.h"
#include "row/job_scans.h"
#include "row/owner.h"
#include "steps/steps.h"

#include <algorithm>

namespace jobq {

namespace {

using core::ClaimKey;

// Counts the pending, scheduled, and blocked jobs of a queue. Each subquery stops at $2 jobs. The last subquery uses
// active edges to find the jobs that wait for dependencies; the other subqueries use indexes that contain only jobs in
// these states.
Statement count_waiting = {
    R"(SELECT (SELECT count(*) FROM (SELECT FROM jobq.jobs j
                                     WHERE j._lane = ANY (ARRAY (SELECT d.lane FROM jobq.lane_directory d
                                                                WHERE d.queue = $1))
                                       AND j._ready AND j.queue = $1 LIMIT $2) p)
            + (SELECT count(*) FROM (SELECT FROM jobq.jobs j
                                     WHERE j._due AND j.queue = $1 LIMIT $2) s)
            + (SELECT count(*) FROM (SELECT FROM jobq.jobs j
                                     WHERE j._group_waiting IS NOT NULL AND j.queue = $1 LIMIT $2) g)
            + (SELECT count(*) FROM (SELECT FROM (SELECT DISTINCT d.job_id FROM jobq.edges d WHERE d.kind = 'depends' AND d.active) d,
                                                 LATERAL (SELECT FROM jobq.jobs j
                                                          WHERE j.id = ANY (ARRAY[d.job_id]) AND j.status = 'blocked'
                                                            AND j._group_waiting IS NULL AND j.queue = $1) j
                                     LIMIT $2) b))",
    {TEXTOID, INT8OID}};

// A copy of the queue's settings. The copy is needed because the session might reload its queue directory while it
// counts or drops jobs.
struct Limit {
    int64 max_depth;
    core::FullPolicy policy;
};

Limit limit_of(const Queue &queue) { return {queue.max_depth, queue.on_full}; }

// Counts jobs that await something without a timeout. Jobs that await something with a timeout are already counted by
// count_waiting, because the column _due is true for them.
Statement count_awaiting = {
    R"(SELECT count(*) FROM (SELECT FROM (SELECT DISTINCT s.job_id FROM jobq.steps s WHERE s._awaited IS NOT NULL) s,
                                         LATERAL (SELECT FROM jobq.jobs j
                                                  WHERE j.id = ANY (ARRAY[s.job_id]) AND j.status = 'blocked'
                                                    AND j._must_end_at = 'infinity' AND j.queue = $1) j
                             LIMIT $2) a)",
    {TEXTOID, INT8OID}};

// Locks waiting jobs that have expired but that the duty "expire" has not canceled yet.
Statement lock_expired = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j.expires_at <= $2 AND j.status < 'processing' AND j.queue = $1 AND j.id <> ALL ($3)
       ORDER BY j.expires_at LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED)",
    {TEXTOID, TIMESTAMPTZOID, INT8ARRAYOID, INT8OID}};

int64 count_rows(std::string_view name, int64 at_most) {
    return with_owner_spi([&] {
        const Params params = Params().add(PointerGetDatum(make_text(name))).add(Int64GetDatum(at_most));
        int64 count = run(count_waiting, params)[0].int64_at(1);
        if (any_step()) count += run(count_awaiting, params)[0].int64_at(1);
        return count;
    });
}

int64 depth_of(std::string_view name, int64 at_most) {
    int64 depth = 0;
    if (!counts_unknown_here() && read_depth(name, &depth)) return depth + own_depth(name);
    return count_rows(name, at_most);
}

// The pending jobs of one lane and priority, oldest first.
struct Stream {
    int64 lane;
    ClaimKey head;
};

bool younger(const Stream &a, const Stream &b) {
    return a.head.run_at != b.head.run_at ? a.head.run_at > b.head.run_at : a.head.id > b.head.id;
}

void push_stream(Notes<Stream> *streams, const Stream &added) {
    streams->add(added);
    std::push_heap(streams->items, streams->items + streams->count, younger);
}

// Adds a stream for each priority of a lane.
void add_streams(JobsTable *jobs, int64 lane, Notes<Stream> *streams) {
    const bool skip_empty_ranges = may_skip_empty_ranges(lane);
    const int passed = walk_priorities(jobs, lane, skip_empty_ranges, [&](const ClaimKey &key) {
        push_stream(streams, {lane, key});
    });
    // Records the empty range here, because the index entries of dropped jobs remain while an old transaction is open,
    // and there might never be a claim that would record the range.
    if (!skip_empty_ranges || passed < kWorthRefreshing) return;
    refresh_lane(jobs, lane, core::kLastKey, kRefreshPause);
    renew_snapshot(jobs);
}

// The state of one call to drop_oldest().
struct Drop {
    std::string_view queue;
    JobsTable jobs;
    Notes<Stream> streams;  // a heap, with the stream of the oldest job on top
    TimestampTz now;
    SparedJobs spared;
    text *error;
    int64 count;
    Endings endings;
};

// Cancels the job that the scan has found, unless the job must not be dropped, has already begun to run, or is locked
// by another session.
void drop_found(Drop *drop) {
    JobsTable *jobs = &drop->jobs;
    const SparedJobs &spared = drop->spared;
    if (std::binary_search(spared.ids, spared.ids + spared.count, DatumGetInt64(job_value(*jobs, kJobId)))) return;
    if (!has_status(*jobs, core::JobStatus::Pending)) return;
    if (!lock_row_or_skip(&jobs->table)) return;
    const JobState before = state_of(*jobs);
    if (!core::applies(core::EventKind::Dropped, before.life)) return;
    const core::Life after = core::after_event(before.life, {core::EventKind::Dropped, drop->now});
    OtherColumns others = {};
    others.set(kJobError, PointerGetDatum(drop->error));
    write_locked_life(jobs, before, after, others);
    note_end(*jobs, before, after, drop->now, &drop->endings);
    drop->count++;
}

// Cancels the oldest job, and advances its stream to the next job.
void drop_first(Drop *drop) {
    Notes<Stream> *streams = &drop->streams;
    std::pop_heap(streams->items, streams->items + streams->count, younger);
    const Stream oldest = streams->items[--streams->count];
    ClaimKey key;
    bool done = false;
    seek_ready_range(&drop->jobs, oldest.lane, oldest.head, {INT64_MAX, INT64_MAX, oldest.head.priority});
    while (next_ready(&drop->jobs, &key) && key.priority == oldest.head.priority) {
        CHECK_FOR_INTERRUPTS();
        if (!fetch_ready(&drop->jobs)) continue;
        if (done || !(key == oldest.head)) {
            push_stream(streams, {oldest.lane, key});
            return;
        }
        drop_found(drop);
        done = true;
    }
}

// Cancels the pending jobs that have waited longest, regardless of their priority, but at most `count` jobs. Skips jobs
// in `spared` and jobs that other sessions have locked. Returns the number of canceled jobs.
int64 drop_oldest(std::string_view name, const Limit &limit, int64 count, TimestampTz now, const SparedJobs &spared) {
    Drop drop = {};
    drop.queue = name;
    drop.now = now;
    drop.spared = spared;
    drop.error = cstring_to_text(
        psprintf("dropped: the queue was full (max_depth %lld)", static_cast<long long>(limit.max_depth)));
    const LaneIds lanes = all_lanes(name);
    open_jobs(&drop.jobs);
    renew_snapshot(&drop.jobs);
    LaneWalk walk = {lanes.items, lanes.count, 0};
    int64 lane;
    ClaimKey first;
    while (next_lane_with_entries(&drop.jobs, &walk, &lane, &first)) add_streams(&drop.jobs, lane, &drop.streams);
    while (drop.streams.count > 0 && drop.count < count) drop_first(&drop);
    close_jobs(&drop.jobs);
    settle_endings_as_owner(drop.endings, now);
    return drop.count;
}

// Cancels at most `count` expired jobs of the queue, except those in `spared`. Returns whether there were any.
bool cancel_expired(std::string_view name, int64 count, TimestampTz now, const SparedJobs &spared) {
    return with_owner_spi([&] {
        ArrayColumn kept(spared.count);
        for (int i = 0; i < spared.count; i++) kept.add(Int64GetDatum(spared.ids[i]));
        const Rows expired = run(lock_expired, Params()
                                                   .add(PointerGetDatum(make_text(name)))
                                                   .add(TimestampTzGetDatum(now))
                                                   .add(kept.array(INT8OID))
                                                   .add(Int64GetDatum(count)));
        expire_jobs(first_column(expired), static_cast<int>(expired.size()), now);
        return expired.size() > 0;
    });
}

[[noreturn]] void queue_full(std::string_view name, const Limit &limit, int64 depth, int64 added) {
    const char *remedy =
        added > limit.max_depth ? "Enqueue fewer jobs per call, or increase \"max_depth\" with jobq_alter_queue()."
        : limit.policy == core::FullPolicy::DropOldest
            ? "Too few pending jobs can be dropped. Try again later, or increase \"max_depth\" with jobq_alter_queue()."
            : "Try again later, or increase \"max_depth\" with jobq_alter_queue().";
    ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                    errmsg("queue \"%.*s\" is full", static_cast<int>(name.size()), name.data()),
                    errdetail("The queue has %lld waiting jobs, the call adds %lld, and \"max_depth\" is %lld.",
                              static_cast<long long>(depth), static_cast<long long>(added),
                              static_cast<long long>(limit.max_depth)),
                    errhint("%s", remedy)));
    pg_unreachable();
}

}  // namespace

void make_room(std::string_view name, int64 added, TimestampTz now, const SparedJobs &spared) {
    const Queue *queue = find_queue(name);
    if (queue->max_depth == 0) return;
    const Limit limit = limit_of(*queue);
    const int64 at_most = limit.max_depth + added + core::kMaxExtraDrops;
    int64 depth = depth_of(name, at_most);
    // Jobs that will never run must not make the queue full.
    const int64 excess = depth + added - limit.max_depth;
    if (excess > 0 && cancel_expired(name, Min(excess, core::kMaxBatch), now, spared)) depth = depth_of(name, at_most);
    const core::Admission admission = core::admit(depth, added, limit.max_depth, limit.policy);
    int64 dropped = 0;
    if (admission.drop > 0) dropped = drop_oldest(name, limit, admission.drop, now, spared);
    if (!admission.admitted || dropped < admission.needed) queue_full(name, limit, depth, added);
}

}  // namespace jobq
