// Explains why a job does not run. See explain.h.
#include "compat/pg.h"

#include "admin/chain.h"
#include "admin/explain.h"
#include "compat/args.h"
#include "compat/settings.h"
#include "handlers/handler_state.h"
#include "leases/lease_sql.h"
#include "log/rows.h"
#include "row/job_scans.h"
#include "row/limit_names.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "steps/steps.h"

extern "C" {
#include "access/xlog.h"
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

enum Column {
    kStatus = 1,
    kQueue,
    kKind,
    kVersion,
    kRequires,
    kPriority,
    kRunAt,
    kTable,
    kPlace,
    kWorkerId,
    kLastHeartbeat,
    kLeaseTimeout,
    kMustEndAt,
    kCancelRequestedAt,
    kFinishedAt,
    kError,
    kGroupKey,
    kGroupWaiting,
    kConcurrencyKey,
    kAttempts,
    kMaxAttempts,
    kDeadFrom,
    kExpiresAt,
    kGroupActive,
    kLimits,
    kSuspect
};
Statement read_subject = {
    R"(SELECT j.status::text, j.queue, j.kind, j.version, j.requires, j.priority, j.run_at, j.tableoid, j.ctid,
              j.worker_id, j.last_heartbeat, j._lease_timeout, j._must_end_at, j.cancel_requested_at, j.finished_at,
              j.error, j.group_key, j._group_waiting, j.concurrency_key, j.attempts, j.max_attempts, j.dead_from,
              j.expires_at, j._group_active, j.limits, )" IS_SUSPECT R"(
       FROM jobq.jobs j WHERE j.id = $1)",
    {INT8OID}};

// Selects the unfinished jobs for which job $1 waits because of its edges of kind $2.
Statement read_unfinished = {
    R"(SELECT e.target FROM jobq.edges e JOIN jobq.jobs j ON j.id = e.target
       WHERE e.job_id = $1 AND e.kind = $2 AND j.status <= 'processing'
       ORDER BY e.target LIMIT $3)",
    {INT8OID, TEXTOID, INT8OID}};

Statement find_edge = {"SELECT EXISTS (SELECT FROM jobq.edges e WHERE e.job_id = $1 AND e.kind = 'depends')",
                       {INT8OID}};

// Selects the head of the group, and whether it has failed. OFFSET 0 prevents a scan of the index on id, which could
// read all jobs in the table.
Statement read_group_head = {
    R"(SELECT h.id, h.status = 'failed', h.error
       FROM (SELECT j.id, j.status, j.error FROM jobq.jobs j WHERE j._group_active = $1 OFFSET 0) h
       ORDER BY h.id LIMIT 1)",
    {INT8OID}};
Statement count_group_before = {
    R"(SELECT count(*) FROM (SELECT FROM jobq.jobs j WHERE j._group_waiting = $1 AND j.id < $2 LIMIT $3) w)",
    {INT8OID, INT8OID, INT8OID}};

// Counts the claimable jobs, in all lanes of the queue, that come before the position ($2, $3, $4), which consists of
// priority, run_at, and id. Counts at most $5 jobs.
Statement count_before = {
    R"(SELECT count(*)
       FROM (SELECT FROM (SELECT DISTINCT d.lane
                          FROM (SELECT d.lane FROM jobq.lane_directory d WHERE d.queue = $1 OFFSET 0) d) l,
                  LATERAL (SELECT FROM jobq.jobs j
                           WHERE j._lane = l.lane AND j._ready AND (j.priority, j.run_at, j.id) < ($2, $3, $4)
                             AND )" NOT_EXPIRED("clock_timestamp()") R"(
                           LIMIT $5) j
             LIMIT $5) w)",
    {TEXTOID, INT2OID, TIMESTAMPTZOID, INT8OID, INT8OID}};

struct Subject {
    int64 id;
    Row row;
    core::JobStatus status;
    std::string_view queue_name;
    const Queue *queue;
    TimestampTz now;
    ReasonSink *sink;
};

bool has(const Subject &job, int column) { return !job.row.is_null(column); }
TimestampTz time_at(const Subject &job, int column) {
    return has(job, column) ? DatumGetTimestampTz(job.row.get(column)) : DT_NOEND;
}
const char *string_at(const Subject &job, int column) {
    return has(job, column) ? TextDatumGetCString(job.row.get(column)) : "";
}

void explain_finished(const Subject &job) {
    if (job.status == core::JobStatus::Failed && has(job, kGroupActive))
        job.sink->take({ReasonKind::Halted,
                        psprintf("group \"%s\" is halted until this job is retried, canceled, or deleted, or until "
                                 "jobq_skip lets the next job run",
                                 string_at(job, kGroupKey))});
    const char *detail =
        job.status == core::JobStatus::Completed
            ? "the job has completed"
            : psprintf("%s%s%s", core::status_name(job.status), has(job, kError) ? ": " : "", string_at(job, kError));
    job.sink->take({ReasonKind::Finished, psprintf("%s; jobq_retry runs it again", detail)});
    if (has(job, kDeadFrom))
        job.sink->take({ReasonKind::DeadLetter,
                        psprintf("the job failed in queue \"%s\"; jobq_redrive or jobq_retry runs it there again",
                                 string_at(job, kDeadFrom))});
}

// Returns whether the job is run by an executor instead of a client.
bool has_executor(const Subject &job) {
    return has(job, kLeaseTimeout) && span_of(DatumGetIntervalP(job.row.get(kLeaseTimeout))) >= core::kEndlessLease;
}

// Returns the time at which the worker loses the job: the time at which the lease expires or the maximum runtime ends,
// whichever comes first.
TimestampTz lease_end(const Subject &job) {
    const TimestampTz must_end = time_at(job, kMustEndAt);
    if (!has(job, kLastHeartbeat) || has_executor(job)) return must_end;
    const core::Micros span =
        has(job, kLeaseTimeout) ? span_of(DatumGetIntervalP(job.row.get(kLeaseTimeout))) : core::kUsualLease;
    return Min(core::saturating_add(time_at(job, kLastHeartbeat), span), must_end);
}

void explain_running(const Subject &job) {
    const TimestampTz end = lease_end(job);
    const char *until = has_executor(job) ? "its lease ends with the process that runs its handler"
                                          : "its lease ends at the time in \"until\" unless a heartbeat extends it";
    job.sink->take({.kind = ReasonKind::Running,
                    .detail = psprintf("attempt %d of %d, held by worker \"%s\"; %s", job.row.int32_at(kAttempts),
                                       job.row.int32_at(kMaxAttempts), string_at(job, kWorkerId), until),
                    .until = end});
    const TimestampTz asked = time_at(job, kCancelRequestedAt);
    const TimestampTz forced = asked == DT_NOEND ? asked : core::saturating_add(asked, cancel_grace());
    if (asked != DT_NOEND)
        job.sink->take({.kind = ReasonKind::Cancelling,
                        .detail = "its worker has been told to stop, and loses the job at the time in \"until\"",
                        .until = forced});
    if (Min(end, forced) < job.now) explain_unserved("its time has run out", job.sink);
}

// How long a scheduled job can wait for promotion after its due time before the delay is reported.
constexpr core::Micros kLate = 5 * core::kSecond;

void explain_scheduled(const Subject &job) {
    const TimestampTz run_at = time_at(job, kRunAt);
    const bool retries = job.row.int32_at(kAttempts) > 0 && has(job, kError);
    const bool late = run_at < job.now - kLate;
    job.sink->take(
        {.kind = ReasonKind::Scheduled,
         .detail =
             run_at <= job.now && !worker_serves_database() ? "it is due"
             : late ? "it was due at the time in \"until\"; see note and last_error in jobq.background_workers for the "
                      "cause of the delay"
             : run_at <= job.now ? "it is due, and becomes claimable in a moment"
             : retries ? psprintf("it waits for its next attempt after this error: %s", string_at(job, kError))
                       : "it is due at the time in \"until\"",
         .until = run_at});
    if (run_at <= job.now) explain_unserved("it is due", job.sink);
}

// Returns the ids of the unfinished jobs for which the job waits because of its edges of this kind. Returns at most one
// id more than a reason can contain, so that the caller can tell whether the reason is complete.
Rows unfinished_targets(const Subject &job, const char *kind) {
    return read(read_unfinished,
                Params().add(Int64GetDatum(job.id)).add(CStringGetTextDatum(kind)).add(Int64GetDatum(kNamedJobs + 1)));
}

bool explain_dependencies(const Subject &job) {
    const Rows blockers = unfinished_targets(job, "depends");
    if (blockers.size() == 0) return false;
    const bool more = blockers.size() > kNamedJobs;
    const auto count = static_cast<int>(Min(blockers.size(), static_cast<uint64>(kNamedJobs)));
    job.sink->take({ReasonKind::Dependency,
                    psprintf("it depends on %s%d job%s that %s not finished", more ? "more than " : "", count,
                             count == 1 ? "" : "s", count == 1 ? "has" : "have"),
                    ids_in(blockers)});
    return true;
}

bool explain_group(const Subject &job) {
    if (!has(job, kGroupWaiting)) return false;
    const Datum group = job.row.get(kGroupWaiting);
    const Rows head = read(read_group_head, Params().add(group));
    const int64 before =
        read(count_group_before, Params().add(group).add(Int64GetDatum(job.id)).add(Int64GetDatum(kCounted + 1)))[0]
            .int64_at(1);
    if (head.size() == 0 && before == 0) return false;
    const char *waiting =
        psprintf("%s other job%s before this job", count_text(before), before == 1 ? " waits" : "s wait");
    if (head.size() > 0 && head[0].bool_at(2)) {
        job.sink->take({ReasonKind::Halted,
                        psprintf("group \"%s\" is halted because job %lld has failed (%s), and %s; retry, cancel, or "
                                 "delete the failed job, or call jobq_skip",
                                 string_at(job, kGroupKey), static_cast<long long>(head[0].int64_at(1)),
                                 head[0].is_null(3) ? "no error" : TextDatumGetCString(head[0].get(3)), waiting),
                        ids_in(head)});
        return true;
    }
    job.sink->take({ReasonKind::Group,
                    head.size() > 0
                        ? psprintf("job %lld is the head of group \"%s\", and %s",
                                   static_cast<long long>(head[0].int64_at(1)), string_at(job, kGroupKey), waiting)
                        : psprintf("in group \"%s\", %s", string_at(job, kGroupKey), waiting),
                    head.size() > 0 ? ids_in(head) : 0});
    return true;
}

void explain_awaited_jobs(const Subject &job, const Row &wait) {
    const Rows unfinished = unfinished_targets(job, "awaits");
    const bool more = unfinished.size() > kNamedJobs;
    const auto count = static_cast<int>(Min(unfinished.size(), static_cast<uint64>(kNamedJobs)));
    const int of = wait.int32_at(3);
    job.sink->take({.kind = ReasonKind::Awaiting,
                    .detail = psprintf("it waits for %s of %d job%s, of which %s%d %s not finished",
                                       TextDatumGetCString(wait.get(1)), of, of == 1 ? "" : "s",
                                       more ? "more than " : "", count, count == 1 ? "has" : "have"),
                    .jobs = ids_in(unfinished),
                    .until = time_at(job, kMustEndAt)});
    if (count == 0) explain_unserved("everything it awaits has ended", job.sink);
}

void explain_awaiting(const Subject &job) {
    const Rows awaited = read_awaited(job.id);
    if (awaited.size() > 0 && awaited[0].is_null(2)) return explain_awaited_jobs(job, awaited[0]);
    const bool known = awaited.size() > 0;
    const auto event = known ? awaited[0].text_at(2) : std::string_view();
    job.sink->take(
        {.kind = ReasonKind::Awaiting,
         .detail = known ? psprintf("it waits for the signal \"%.*s\"", static_cast<int>(event.size()), event.data())
                         : "it waits for something that is not in jobq.steps; set its status to pending",
         .until = time_at(job, kMustEndAt)});
}

void explain_blocked(const Subject &job) {
    if (has(job, kMustEndAt) && !has(job, kGroupWaiting)) {
        explain_awaiting(job);
        if (time_at(job, kMustEndAt) <= job.now) explain_unserved("its time has run out", job.sink);
        return;
    }
    const bool depends = explain_dependencies(job);
    if (explain_group(job) || depends) return;
    if (!has(job, kGroupKey) && !read(find_edge, Params().add(Int64GetDatum(job.id)))[0].bool_at(1)) {
        job.sink->take({ReasonKind::Blocked,
                        "its status was set to blocked with plain SQL, and stays blocked until it is changed again"});
        return;
    }
    job.sink->take(
        {ReasonKind::Unblocking, worker_serves_database()
                                     ? "everything it waited for has ended, and it becomes claimable in a moment "
                                       "unless jobq.background_workers shows a note or an error"
                                     : "everything it waited for has ended"});
    explain_unserved("everything it waited for has ended", job.sink);
}

// Maximum number of jobs to list from the beginning of a chain. Each job is listed with the reason why it does not run.
constexpr int kMaxListedRoots = 5;

// If the jobs for which this job waits also wait for other jobs, reports the jobs at which the chain of waits begins.
void explain_chain(const Subject &job) {
    const Chain chain = walk_chain(job.id);
    if (!chain.any) return;
    const char *detail = nullptr;
    if (chain.deep) {
        StringInfoData text;
        initStringInfo(&text);
        appendStringInfoString(&text, "the chain of waits begins at ");
        const int listed = Min(chain.root_count, kMaxListedRoots);
        for (int i = 0; i < listed; i++) {
            ReasonSink reasons;
            explain_job(chain.roots[i], job.now, &reasons);
            appendStringInfo(&text, "%sjob %lld (%s)",
                             i == 0                      ? ""
                             : i == chain.root_count - 1 ? " and "
                                                         : ", ",
                             static_cast<long long>(chain.roots[i]),
                             reasons.first != nullptr ? reasons.first : "deleted");
        }
        if (chain.root_count > listed) appendStringInfo(&text, " and %d more jobs", chain.root_count - listed);
        if (chain.unvisited != 0) appendStringInfo(&text, "; only %d jobs of the chain were checked", kVisitedJobs);
        detail = text.data;
    } else if (chain.root_count == 0) {
        detail = chain.unvisited == 0
                     ? "the jobs that it waits for wait for each other"
                     : psprintf("the chain continues with job %lld; only %d jobs of the chain were checked",
                                static_cast<long long>(chain.unvisited), kVisitedJobs);
    }
    if (detail == nullptr) return;
    Datum jobs[kNamedJobs];
    int count = 0;
    while (count < chain.root_count && count < kNamedJobs) {
        jobs[count] = Int64GetDatum(chain.roots[count]);
        count++;
    }
    if (count == 0 && chain.unvisited != 0) jobs[count++] = Int64GetDatum(chain.unvisited);
    job.sink->take({ReasonKind::Chain, detail, count == 0 ? 0 : array_of(jobs, count, INT8OID)});
}

// If the handler of this queue and kind is waiting for an executor, reports why.
void explain_handler(const Subject &job) {
    if (!shared_memory_ready() || RecoveryInProgress()) return;
    const std::string_view kind = job.row.text_at(kKind);
    const Handlers handlers = read_handlers(nullptr);
    for (const Handler *handler = handlers.items; handler < handlers.items + handlers.count; handler++) {
        if (handler->queue != job.queue_name || handler->kind != kind) continue;
        const HandlerState state = state_of_handler(*handler);
        if (strcmp(state.state, "waiting") == 0)
            job.sink->take({ReasonKind::Handler, psprintf("its handler waits for an executor: %s", state.reason)});
    }
}

// Reports how many claimable jobs come before the job or, if there are none, that the job is claimable. `stopped` means
// that another reason keeps the job from running. `requests` is the result of describe_requests().
void explain_place(const Subject &job, bool stopped, const char *requests) {
    const int64 before = read(count_before, Params()
                                                .add(job.row.get(kQueue))
                                                .add(job.row.get(kPriority))
                                                .add(job.row.get(kRunAt))
                                                .add(Int64GetDatum(job.id))
                                                .add(Int64GetDatum(kCounted + 1)))[0]
                             .int64_at(1);
    const char *order = job.queue->round_robin           ? ", but the concurrency_keys of the queue take turns"
                        : job.queue->priority_ageing > 0 ? ", but priority_ageing also counts the waiting time"
                                                         : "";
    if (before > 0)
        job.sink->take({ReasonKind::Behind,
                        psprintf("%s claimable job%s of the queue come%s before it by priority, run_at, and id%s%s",
                                 count_text(before), before == 1 ? "" : "s", before == 1 ? "s" : "", order,
                                 stopped ? "" : requests)});
    else if (!stopped)
        job.sink->take({ReasonKind::Claimable, psprintf("the next claim that can take it gets it%s", requests)});
}

// If the job expires unless a worker claims it in time, or has expired already, reports this.
void explain_expiry(const Subject &job) {
    const TimestampTz expires_at = time_at(job, kExpiresAt);
    if (expires_at == DT_NOEND) return;
    const bool expired = expires_at <= job.now;
    job.sink->take({.kind = ReasonKind::Expires,
                    .detail = expired ? "it expired at the time in \"until\", so no worker can claim it anymore"
                                      : "it expires at the time in \"until\" unless a worker claims it first",
                    .until = expires_at});
    if (expired) explain_unserved("it has expired", job.sink);
}

void explain_pending(const Subject &job) {
    const int reasons_before = job.sink->count;
    explain_refusal(job.sink);
    const bool paused = explain_queue_stops(job.queue_name, *job.queue, job.now, job.sink) && job.queue->paused;
    if (has(job, kConcurrencyKey))
        explain_key_stops(job.queue_name, job.row.text_at(kConcurrencyKey), *job.queue, job.now, job.sink);
    explain_kind_stops(job.queue_name, job.row.text_at(kKind), *job.queue, job.now, job.sink);
    const LimitNames limits =
        has(job, kLimits) ? names_in_limits(DatumGetArrayTypeP(job.row.get(kLimits))) : LimitNames{};
    for (int i = 0; i < limits.count; i++)
        explain_limit_stops(job.queue_name, limits.items[i], *job.queue, job.now, job.sink);
    explain_holders(holders_of_row(DatumGetObjectId(job.row.get(kTable)), job.row.get(kPlace)), 0, 1, job.sink);
    const Workers workers = find_workers(job.queue_name, job.now);
    const Demand demand = demand_at(job.row, kKind);
    // While the queue is paused, it does not matter whether any worker asks for jobs of this kind.
    if (!paused) explain_unasked(workers, demand, 0, job.now, job.sink);
    if (!paused) explain_handler(job);
    // A suspect must wait only while another suspect is on trial (leases/suspects.h).
    bool stopped = job.sink->count > reasons_before;
    if (job.row.bool_at(kSuspect))
        stopped |=
            explain_suspects(job.queue_name, has(job, kWorkerId) ? DatumGetTextPP(job.row.get(kWorkerId)) : nullptr, 1,
                             job.now, job.sink);
    LastRequest last = kNoRequest;
    add_last_request(workers.recent, demand, &last);
    explain_place(job, stopped, describe_requests(workers, &demand, last, job.now));
}

}  // namespace

void explain_job(int64 job_id, TimestampTz now, ReasonSink *sink) {
    const Rows rows = read(read_subject, Params().add(Int64GetDatum(job_id)));
    if (rows.size() == 0) return;
    const Row row = rows[0];
    const Queue queue = *find_queue(row.text_at(kQueue));
    const Subject job = {.id = job_id,
                         .row = row,
                         .status = status_at(row, kStatus),
                         .queue_name = row.text_at(kQueue),
                         .queue = &queue,
                         .now = now,
                         .sink = sink};
    if (core::is_finished(job.status)) return explain_finished(job);
    // No other reason matters for a job that cannot run anymore.
    if (time_at(job, kExpiresAt) <= now) return explain_expiry(job);
    switch (job.status) {
        case core::JobStatus::Processing:
            explain_running(job);
            return;
        case core::JobStatus::Scheduled:
            explain_scheduled(job);
            break;
        case core::JobStatus::Blocked:
            explain_blocked(job);
            explain_chain(job);
            break;
        case core::JobStatus::Pending:
            explain_pending(job);
            explain_expiry(job);
            return;
        default:  // explained above
            break;
    }
    if (queue.paused) explain_queue_stops(job.queue_name, queue, now, sink);
    explain_holders(holders_of_row(DatumGetObjectId(row.get(kTable)), row.get(kPlace)), 0, 1, sink);
    explain_expiry(job);
}

}  // namespace jobq
