// Explains why a queue makes no progress. See explain.h.
#include "compat/pg.h"

#include "admin/explain.h"
#include "compat/args.h"
#include "leases/lease_sql.h"
#include "limits/limiter.h"
#include "metrics/counts.h"
#include "queues/known_queues.h"
#include "row/job_scans.h"
#include "row/limit_names.h"

#include <algorithm>

namespace jobq {

namespace {

constexpr int kLanes = 100;
constexpr int kKeys = 20;
// Maximum number of concurrency keys that are checked in the search for a key whose limits allow more jobs to start.
constexpr int kCheckedKeys = 1000;
// Number of jobs at the head of the queue whose locks and concurrency keys are checked.
constexpr int kHead = 20;

// Subquery that selects the lanes of queue $1. OFFSET 0 prevents a plan that reads the lanes in order, because such a
// plan would scan the lanes of all queues.
#define LANES_OF_QUEUE \
    "(SELECT DISTINCT d.lane FROM (SELECT d.lane FROM jobq.lane_directory d WHERE d.queue = $1 OFFSET 0) d)"

// Selects the lanes that have claimable jobs, ordered by the lowest priority and the earliest run_at of their jobs.
Statement read_lanes = {
    R"(SELECT l.kind, l.version, l.requires, n.jobs, l.limits
       FROM (SELECT DISTINCT ON (d.lane) d.lane, d.kind, d.version, d.requires, d.limits
             FROM (SELECT d.lane, d.kind, d.version, d.requires, d.limits
                   FROM jobq.lane_directory d WHERE d.queue = $1 OFFSET 0) d
             ORDER BY d.lane) l,
            LATERAL (SELECT count(*) AS jobs, min(j.priority) AS priority, min(j.run_at) AS run_at
                     FROM (SELECT j.priority, j.run_at FROM jobq.jobs j
                           WHERE j._lane = l.lane AND j._ready AND )" NOT_EXPIRED("clock_timestamp()") R"(
                           LIMIT $2) j) n
       WHERE n.jobs > 0 ORDER BY n.priority, n.run_at LIMIT $3)",
    {TEXTOID, INT8OID, INT8OID}};

Statement read_head = {
    R"(SELECT h.id, h.tableoid, h.ctid
       FROM )" LANES_OF_QUEUE R"( l,
            LATERAL (SELECT j.id, j.tableoid, j.ctid, j.priority, j.run_at FROM jobq.jobs j
                     WHERE j._lane = l.lane AND j._ready
                     ORDER BY j._lane, j.priority, j.run_at, j.id LIMIT $2) h
       ORDER BY h.priority, h.run_at, h.id LIMIT $2)",
    {TEXTOID, INT8OID}};

// Selects the concurrency keys of running jobs that hold a slot of their key's limit. Also selects the keys of the
// first claimable jobs of the queue, because a rate limit can stop the jobs of a key even if none of them is running.
Statement read_limited_keys = {
    R"(SELECT k.key
       FROM ((SELECT j.concurrency_key AS key, count(*) AS running FROM jobq.jobs j
              WHERE j._key_slot IS NOT NULL AND j.queue = $1 AND j.concurrency_key IS NOT NULL
              GROUP BY j.concurrency_key ORDER BY count(*) DESC, j.concurrency_key COLLATE "C" LIMIT $2)
             UNION ALL
             SELECT h.key, 0
             FROM (SELECT h.concurrency_key AS key
                   FROM )" LANES_OF_QUEUE R"( l,
                        LATERAL (SELECT j.id, j.priority, j.run_at, j.concurrency_key FROM jobq.jobs j
                                 WHERE j._lane = l.lane AND j._ready
                                 ORDER BY j._lane, j.priority, j.run_at, j.id LIMIT $3) h
                   ORDER BY h.priority, h.run_at, h.id LIMIT $3) h
             WHERE h.key IS NOT NULL) k
       GROUP BY k.key ORDER BY max(k.running) DESC, k.key COLLATE "C")",
    {TEXTOID, INT8OID, INT8OID},
    Planning::Free};

// Selects the due time of the queue's next scheduled job, if this job is among the next $2 scheduled jobs of all
// queues.
Statement read_next_due = {
    R"(SELECT n.run_at FROM (SELECT j.run_at, j.queue FROM jobq.jobs j WHERE j._due AND j.status = 'scheduled'
                             ORDER BY j.run_at, j.id LIMIT $2) n
       WHERE n.queue = $1 ORDER BY n.run_at LIMIT 1)",
    {TEXTOID, INT8OID}};

// Checks at most $2 claimable jobs: selects whether any of them has no concurrency key, and how many jobs were checked.
Statement find_keyless = {R"(SELECT coalesce(bool_or(j.concurrency_key IS NULL), false), count(*)
       FROM (SELECT j.concurrency_key
             FROM )" LANES_OF_QUEUE R"( l,
                  LATERAL (SELECT j.concurrency_key FROM jobq.jobs j
                           WHERE j._lane = l.lane AND j._ready
                           ORDER BY j._lane, j.priority, j.run_at, j.id LIMIT $2) j
             LIMIT $2) j)",
                          {TEXTOID, INT8OID}};

// Selects the concurrency keys of claimable jobs, each key once per lane. Each step of the recursion looks up the next
// key in the index, so the cost depends on the number of keys, not on the number of jobs.
#define NEXT_KEY(condition)                                       \
    "(SELECT j.concurrency_key FROM jobq.jobs j WHERE " condition \
    " AND j.concurrency_key IS NOT NULL AND j._ready"             \
    " ORDER BY j._lane, j.concurrency_key COLLATE \"C\" LIMIT 1)"
Statement read_keys = {
    R"(WITH RECURSIVE keys(lane, key) AS (
           SELECT l.lane, )" NEXT_KEY("j._lane = l.lane") R"( FROM )" LANES_OF_QUEUE R"( l
           UNION ALL
           SELECT k.lane, )" NEXT_KEY(R"(j._lane = k.lane AND j.concurrency_key COLLATE "C" > k.key)") R"(
           FROM keys k WHERE k.key IS NOT NULL)
       SELECT k.key FROM keys k WHERE k.key IS NOT NULL LIMIT $2)",
    {TEXTOID, INT8OID}};

// Counts at most $2 of the queue's claimable jobs, and the suspects among the counted jobs.
Statement count_suspects = {R"(SELECT count(*) FILTER (WHERE )" IS_SUSPECT R"(), count(*)
       FROM (SELECT j.lost_attempts, j._company_lease
             FROM )" LANES_OF_QUEUE R"( l,
                  LATERAL (SELECT j.lost_attempts, j._company_lease FROM jobq.jobs j
                           WHERE j._lane = l.lane AND j._ready
                           ORDER BY j._lane, j.priority, j.run_at, j.id LIMIT $2) j
             LIMIT $2) j)",
                            {TEXTOID, INT8OID}};

// Selects the failed heads of the halted groups of the queue.
Statement read_halted = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j.queue = $1 AND j.status = 'failed' AND j._group_active IS NOT NULL ORDER BY j.id LIMIT $2)",
    {TEXTOID, INT8OID},
    Planning::Free};

const char *jobs_text(int64 count) {
    return psprintf("%lld job%s", static_cast<long long>(count), count == 1 ? "" : "s");
}

int64 in_status(const QueueNumbers &numbers, core::JobStatus status) {
    return Max(numbers.jobs[static_cast<int>(status)], 0);
}

// The kinds or the named limits of a queue that were checked, and whether the limit lets no job start.
struct CheckedNames {
    struct {
        std::string_view name;
        bool stopped;
    } items[kLanes * core::kMaxLimitsOfJob];
    int count;
};

// Calls stops() unless the name has been checked before. Returns whether the limit of the kind, or the named limit lets
// no job start.
template <typename Stops>
bool is_stopped(std::string_view name, CheckedNames *checked, Stops stops) {
    for (int i = 0; i < checked->count; i++)
        if (checked->items[i].name == name) return checked->items[i].stopped;
    const bool stopped = stops();
    checked->items[checked->count++] = {name, stopped};
    return stopped;
}

// What was checked for the lanes of a queue.
struct CheckedLimits {
    CheckedNames kinds, names;
};

// Returns whether a limit lets no job of the lane start: the limit of its kind or a named limit. Reports each limit
// once.
bool lane_is_stopped(std::string_view name, const Row &lane, const Queue &queue, TimestampTz now,
                     CheckedLimits *checked, ReasonSink *sink) {
    bool stopped = false;
    const std::string_view kind = lane.text_at(1);
    if (queue.kind_limit_count > 0)
        stopped = is_stopped(kind, &checked->kinds, [&] { return explain_kind_stops(name, kind, queue, now, sink); });
    if (queue.named_limit_count == 0 || lane.is_null(5)) return stopped;
    const LimitNames limits = names_in_limits(DatumGetArrayTypeP(lane.get(5)));
    for (int i = 0; i < limits.count; i++)
        stopped |= is_stopped(limits.items[i], &checked->names,
                              [&] { return explain_limit_stops(name, limits.items[i], queue, now, sink); });
    return stopped;
}

// Returns the number of claimable jobs that match a recent request of a worker and whose limits have room, and reports
// the jobs that match no request and the limits that have no room. Sets *requests to a text that says when workers last
// asked for jobs.
int64 explain_lanes(std::string_view name, const Queue &queue, text *queue_text, TimestampTz now, const char **requests,
                    ReasonSink *sink) {
    const Rows lanes =
        read(read_lanes,
             Params().add(PointerGetDatum(queue_text)).add(Int64GetDatum(kCounted + 1)).add(Int64GetDatum(kLanes + 1)));
    const Workers workers = find_workers(name, now);
    int64 wanted = 0;
    LastRequest last = kNoRequest;
    CheckedLimits checked_limits = {};
    const auto checked = static_cast<int>(Min(lanes.size(), static_cast<uint64>(kLanes)));
    for (int i = 0; i < checked; i++) {
        const Demand demand = demand_at(lanes[i], 1);
        const int64 jobs = lanes[i].int64_at(4);
        const bool stopped = lane_is_stopped(name, lanes[i], queue, now, &checked_limits, sink);
        if (!explain_unasked(workers, demand, jobs, now, sink) && !stopped) wanted += jobs;
        add_last_request(workers.recent, demand, &last);
    }
    if (wanted == 0 && lanes.size() > kLanes)
        sink->take({ReasonKind::Unasked,
                    psprintf("jobs of other kinds, versions, or capabilities than these %d were not checked", kLanes)});
    *requests = describe_requests(workers, nullptr, last, now);
    return wanted;
}

RowHolders holders_at(const Row &place) { return holders_of_row(DatumGetObjectId(place.get(2)), place.get(3)); }

Rows read_first(text *queue, int64 most) {
    return read(read_head, Params().add(PointerGetDatum(queue)).add(Int64GetDatum(most)));
}

// Returns whether other sessions have locked all claimable jobs. Returns false if there are too many jobs to check.
bool all_are_held(text *queue) {
    const Rows jobs = read_first(queue, kCounted);
    if (jobs.size() == static_cast<uint64>(kCounted)) return false;
    for (uint64 i = 0; i < jobs.size(); i++)
        if (holders_at(jobs[i]).count == 0) return false;
    return true;
}

// Reports which sessions have locked the first jobs of the queue. Returns whether other sessions have locked all
// claimable jobs.
bool explain_head(text *queue, ReasonSink *sink) {
    const Rows head = read_first(queue, kHead);
    RowHolders all = {};
    Datum held[kHead];
    int count = 0;
    for (uint64 i = 0; i < head.size(); i++) {
        const RowHolders holders = holders_at(head[i]);
        if (holders.count > 0) held[count++] = head[i].get(1);
        for (int h = 0; h < holders.count; h++) {
            const TransactionId *end = all.xids + all.count;
            if (all.count < kMaxHolders &&
                std::find(static_cast<const TransactionId *>(all.xids), end, holders.xids[h]) == end)
                all.xids[all.count++] = holders.xids[h];
        }
    }
    if (count > 0) explain_holders(all, array_of(held, count, INT8OID), count, sink);
    return head.size() > 0 && count == static_cast<int>(head.size()) && (count < kHead || all_are_held(queue));
}

// Reports the suspects among the claimable jobs. Returns true if all claimable jobs are suspects and another suspect is
// on trial, so that none of them can start.
bool explain_suspected(std::string_view name, text *queue, TimestampTz now, ReasonSink *sink) {
    const Rows counts = read(count_suspects, Params().add(PointerGetDatum(queue)).add(Int64GetDatum(kCounted)));
    const int64 suspects = counts[0].int64_at(1);
    return suspects > 0 && explain_suspects(name, nullptr, suspects, now, sink) && suspects == counts[0].int64_at(2);
}

// Concurrency keys whose limits allow no more jobs to start. Each key is reported as a separate reason.
struct StoppedKeys {
    std::string_view items[kKeys + kHead];
    int count;
};

bool contains(const StoppedKeys &keys, std::string_view key) {
    const std::string_view *end = keys.items + keys.count;
    return std::find(static_cast<const std::string_view *>(keys.items), end, key) != end;
}

void explain_keys(std::string_view name, const Queue &queue, text *queue_text, TimestampTz now, StoppedKeys *stopped,
                  ReasonSink *sink) {
    if (key_limit_count(queue) == (limit_of_queue(queue) != nullptr ? 1 : 0)) return;
    const Rows keys =
        read(read_limited_keys,
             Params().add(PointerGetDatum(queue_text)).add(Int64GetDatum(kKeys)).add(Int64GetDatum(kHead)));
    for (uint64 i = 0; i < keys.size(); i++)
        if (explain_key_stops(name, keys[i].text_at(1), queue, now, sink))
            stopped->items[stopped->count++] = keys[i].text_at(1);
}

// Searches for claimable jobs that can start because no limit of their concurrency key stops them. If it finds such
// jobs, returns a description of them, which the caller appends to a sentence. If it finds none, returns nullptr. It
// then reports that only some jobs were checked or, if all jobs were checked, the number of keys, not counting those in
// `stopped`, whose limits let no job start.
const char *find_startable(std::string_view name, const Queue &queue, text *queue_text, TimestampTz now,
                           const StoppedKeys &stopped, ReasonSink *sink) {
    const Rows first = read(find_keyless, Params().add(PointerGetDatum(queue_text)).add(Int64GetDatum(kCounted + 1)));
    if (first[0].bool_at(1)) return "; jobs without a concurrency_key can start";
    const Rows rows = read(read_keys, Params().add(PointerGetDatum(queue_text)).add(Int64GetDatum(kCheckedKeys + 1)));
    const auto found = static_cast<int>(rows.size());
    auto *keys = static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(found, 1)));
    for (int i = 0; i < found; i++) keys[i] = rows[i].text_at(1);
    std::sort(keys, keys + found);
    const auto count = static_cast<int>(std::unique(keys, keys + found) - keys);
    ReasonSink silent;
    int more = 0;
    for (int i = 0; i < count; i++) {
        if (contains(stopped, keys[i])) continue;
        if (!explain_key_stops(name, keys[i], queue, now, &silent))
            return psprintf("; jobs of concurrency_key \"%.*s\" can start", static_cast<int>(keys[i].size()),
                            keys[i].data());
        more++;
    }
    const int64 looked_at = first[0].int64_at(2);
    if (found > kCheckedKeys || looked_at > kCounted)
        sink->take({ReasonKind::Limit,
                    psprintf("limits stop every job that was checked (jobs: %lld, concurrency_keys: %d); other jobs "
                             "were not checked",
                             static_cast<long long>(looked_at), count)});
    else if (more > 0)
        sink->take({ReasonKind::Limit,
                    psprintf("the limits of %d more concurrency_key%s let no job start", more, more == 1 ? "" : "s")});
    return nullptr;
}

void explain_scheduled(int64 count, text *queue, TimestampTz now, ReasonSink *sink) {
    const Rows due = read(read_next_due, Params().add(PointerGetDatum(queue)).add(Int64GetDatum(kCounted)));
    const TimestampTz next = due.size() > 0 ? DatumGetTimestampTz(due[0].get(1)) : DT_NOEND;
    sink->take({.kind = ReasonKind::Scheduled,
                .detail = psprintf(next <= now ? "%s scheduled; the first was due at the time in \"until\""
                                               : "%s scheduled; the first is due at the time in \"until\"",
                                   jobs_text(count)),
                .until = next});
    if (next <= now) explain_unserved("jobs are due", sink);
}

void explain_blocked(int64 count, ReasonSink *sink) {
    sink->take({ReasonKind::Blocked,
                psprintf("%s for dependencies, signals, other jobs, or earlier jobs of a group; jobq_explain shows the "
                         "reason for each job",
                         psprintf("%s wait%s", jobs_text(count), count == 1 ? "s" : ""))});
    explain_unserved("jobs may have to be unblocked", sink);
}

// Returns whether the groups of the queue, or of one of its kinds, halt on a failure.
bool may_halt(const Queue &queue) {
    return queue.group_on_failure == core::GroupOnFailure::Halt ||
           std::any_of(queue.kinds, queue.kinds + queue.kind_count,
                       [](const KindOfQueue &kind) { return kind.group_on_failure == core::GroupOnFailure::Halt; });
}

// Reports the groups that wait for an operator.
void explain_halted(text *queue, ReasonSink *sink) {
    const Rows heads = read(read_halted, Params().add(PointerGetDatum(queue)).add(Int64GetDatum(kCounted + 1)));
    if (heads.size() == 0) return;
    const auto count = static_cast<int64>(heads.size());
    sink->take({ReasonKind::Halted,
                psprintf("%s group%s halted because a job has failed; see jobq.halted_groups", count_text(count),
                         count == 1 ? " is" : "s are"),
                ids_in(heads)});
}

// Reports how many jobs in the queue are scheduled and how many are blocked.
void explain_waiting(const QueueNumbers &numbers, text *queue, TimestampTz now, ReasonSink *sink) {
    const int64 scheduled = in_status(numbers, core::JobStatus::Scheduled);
    if (scheduled > 0) explain_scheduled(scheduled, queue, now, sink);
    const int64 blocked = in_status(numbers, core::JobStatus::Blocked);
    if (blocked > 0) explain_blocked(blocked, sink);
}

}  // namespace

void explain_queue(std::string_view name, TimestampTz now, ReasonSink *sink) {
    text *queue_text = make_text(name);
    const char *quoted = psprintf("queue \"%.*s\"", static_cast<int>(name.size()), name.data());
    if (!queue_is_known(name)) {
        sink->take({ReasonKind::Unknown, psprintf("%s has neither jobs nor settings", quoted)});
        return;
    }
    const Queue queue = *find_queue(name);
    const QueueNumbers numbers = read_unfinished(name);
    const int64 pending = in_status(numbers, core::JobStatus::Pending);
    const int64 running = in_status(numbers, core::JobStatus::Processing);
    bool stopped = explain_refusal(sink);
    stopped |= explain_queue_stops(name, queue, now, sink);
    StoppedKeys stopped_keys = {};
    explain_keys(name, queue, queue_text, now, &stopped_keys, sink);
    int64 waiting = 0;
    for (const core::StatusRow &row : core::kJobStatuses)
        if (core::is_waiting(row.status)) waiting += in_status(numbers, row.status);
    if (queue.max_depth > 0 && waiting >= queue.max_depth)
        sink->take({ReasonKind::Full,
                    psprintf("waiting jobs: %lld, max_depth: %d; %s", static_cast<long long>(waiting), queue.max_depth,
                             queue.on_full == core::FullPolicy::Reject ? "enqueues are rejected"
                                                                       : "enqueues drop the oldest jobs")});
    if (pending > 0) {
        const char *requests = "";
        // While the queue is paused, it does not matter whether workers ask for its jobs.
        const int64 wanted = queue.paused ? pending : explain_lanes(name, queue, queue_text, now, &requests, sink);
        if (explain_head(queue_text, sink) || wanted == 0) stopped = true;
        const char *startable = "";
        if (!stopped && stopped_keys.count > 0)
            startable = find_startable(name, queue, queue_text, now, stopped_keys, sink);
        if (startable == nullptr) stopped = true;
        if (explain_suspected(name, queue_text, now, sink)) stopped = true;
        if (!stopped)
            sink->take({ReasonKind::Claimable, psprintf("%s pending, %s running%s%s", jobs_text(pending),
                                                        jobs_text(running), startable, requests)});
    }
    if (may_halt(queue)) explain_halted(queue_text, sink);
    explain_waiting(numbers, queue_text, now, sink);
    if (waiting == 0) sink->take({ReasonKind::Empty, psprintf("no jobs waiting, %s running", jobs_text(running))});
}

}  // namespace jobq
