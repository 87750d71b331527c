// The SQL functions with which a worker reports on one or more jobs that it holds: complete, fail, heartbeat, release,
// and snooze. Also the functions that complete and claim jobs, and the function that writes log lines.
#include "compat/pg.h"

#include "claim/claim_functions.h"
#include "compat/args.h"
#include "compat/async_commit.h"
#include "compat/json_keys.h"
#include "compat/memory.h"
#include "compat/result_set.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "finish/held_jobs.h"
#include "finish/log_lines.h"
#include "identity/identity.h"
#include "metrics/connected_workers.h"
#include "queues/granted.h"
#include "row/owner.h"
#include "row/payload.h"
#include "row/status.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace jobq {

namespace {

// The jobs of a batch. While the batch is processed, its jobs are sorted by (id, lease) and have no duplicates. For the
// result, they are in the caller's order.
struct Batch {
    HeldJob *jobs;
    int count;
};

bool by_key(const HeldJob &a, const HeldJob &b) {
    if (a.id != b.id) return a.id < b.id;
    return a.lease != b.lease ? a.lease < b.lease : a.position < b.position;
}

// Reads an optional array of results, errors, or details, which must have the same length as job_ids. `first` is the
// position of job_ids.
Elements read_extras(FunctionCallInfo fcinfo, int first, int n, Oid type, const char *name,
                     void (*check)(Datum, const char *)) {
    if (!given(fcinfo, n)) return {};
    const Elements ids = require_elements(fcinfo, first, INT8OID, "job_ids", core::kMaxBatch);
    const Elements extras = elements_of(PG_GETARG_ARRAYTYPE_P(n), type, name, core::kMaxBatch, NullElements::Allowed);
    check_same_length(ids.count, "job_ids", extras.count, name);
    for (int i = 0; i < extras.count; i++)
        if (check != nullptr && !extras.nulls[i]) check(extras.values[i], name);
    return extras;
}

bool has(const Elements &extras, int i) { return i < extras.count && !extras.nulls[i]; }

// `first` is the position of the argument "job_ids", which the argument "leases" follows.
Batch read_batch(FunctionCallInfo fcinfo, int first = 0, const Elements &extras = {}, const Elements &details = {}) {
    const Elements ids = require_elements(fcinfo, first, INT8OID, "job_ids", core::kMaxBatch);
    const Elements leases = require_elements(fcinfo, first + 1, INT8OID, "leases", core::kMaxBatch);
    check_same_length(ids.count, "job_ids", leases.count, "leases");
    Batch batch = {static_cast<HeldJob *>(palloc(sizeof(HeldJob) * Max(ids.count, 1))), 0};
    for (int i = 0; i < ids.count; i++) {
        HeldJob job = {};
        job.id = DatumGetInt64(ids.values[i]);
        job.lease = DatumGetInt64(leases.values[i]);
        job.position = i;
        job.has_extra = has(extras, i);
        if (job.has_extra) job.extra = extras.values[i];
        if (has(details, i)) job.details = details.values[i];
        batch.jobs[i] = job;
    }
    std::sort(batch.jobs, batch.jobs + ids.count, by_key);
    const HeldJob *end = std::unique(batch.jobs, batch.jobs + ids.count, [](const HeldJob &a, const HeldJob &b) {
        return a.id == b.id && a.lease == b.lease;
    });
    batch.count = static_cast<int>(end - batch.jobs);
    return batch;
}

// Reads a batch with an optional array of results, which follows the arguments "job_ids" and "leases".
Batch read_completed(FunctionCallInfo fcinfo, int first = 0) {
    return read_batch(fcinfo, first, read_extras(fcinfo, first, first + 2, JSONBOID, "results", check_json_size));
}

// Raises 22023 if the details of a failed attempt are not a JSON object, and 54000 if they are too large. They are not
// truncated as error texts are, because only the worker knows which of its keys the reader can do without.
void check_details(Datum details, const char *name) {
    check_json_size(details, name, core::kMaxDetailsKb, nullptr);
    require_object(DatumGetJsonbP(details), name,
                   "Pass an object such as {\"class\": \"ValueError\", \"stack\": \"...\"}.");
}

void in_callers_order(Batch *batch) {
    std::sort(batch->jobs, batch->jobs + batch->count,
              [](const HeldJob &a, const HeldJob &b) { return a.position < b.position; });
}

void take_extra(HeldJob *job, FunctionCallInfo fcinfo, int n) {
    job->has_extra = given(fcinfo, n);
    if (job->has_extra) job->extra = PG_GETARG_DATUM(n);
}

const char *heartbeat_answer(const HeldJob &job) {
    constexpr const char *kUnheld[] = {"lost", "finished", "gone"};
    if (job.held) return job.cancel ? "cancel" : "held";
    return kUnheld[static_cast<int>(job.unheld)];
}

// Runs the body of a heartbeat function and allows its transaction to commit asynchronously. This is safe, because
// losing a heartbeat in a crash is no worse than receiving it late. Log lines are no worse off: if a later report on
// their job is on disk, the lines are too.
template <typename Body>
void may_be_lost(Body body) {
    const bool whole = settings.async_heartbeats && is_whole_transaction();
    body();
    if (whole) allow_async_commit();
}

// The lines that are passed to jobq_write_log(), and their attempts, sorted by (job, lease).
struct LogBatch {
    LogLine *lines;
    int count;
    LoggedAttempt *attempts;
    int attempt_count;
};

// Returns the time of a line that was written this many seconds before `now`.
TimestampTz time_of_line(double seconds_ago, int element, TimestampTz now) {
    if (!(seconds_ago >= 0) || std::isinf(seconds_ago))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("element %d of argument \"seconds_ago\" must be finite and not negative, not %g",
                               element, seconds_ago),
                        errhint("Pass the number of seconds since the worker wrote the line.")));
    // The bound prevents an overflow. write_log_lines() uses no time before the start of the attempt.
    constexpr double kLongAgo = 1e9;
    return now - static_cast<core::Micros>(std::min(seconds_ago, kLongAgo) * core::kSecond);
}

LogBatch read_log(FunctionCallInfo fcinfo, TimestampTz now) {
    const Elements ids = require_elements(fcinfo, 0, INT8OID, "job_ids", core::kMaxBatch);
    const Elements leases = require_elements(fcinfo, 1, INT8OID, "leases", core::kMaxBatch);
    const Elements lines = require_elements(fcinfo, 2, TEXTOID, "lines", core::kMaxBatch);
    Elements levels = {}, ages = {};
    check_same_length(ids.count, "job_ids", leases.count, "leases");
    check_same_length(ids.count, "job_ids", lines.count, "lines");
    if (given(fcinfo, 3)) {
        levels = require_elements(fcinfo, 3, TEXTOID, "levels", core::kMaxBatch);
        check_same_length(ids.count, "job_ids", levels.count, "levels");
    }
    if (given(fcinfo, 4)) {
        ages = require_elements(fcinfo, 4, FLOAT8OID, "seconds_ago", core::kMaxBatch);
        check_same_length(ids.count, "job_ids", ages.count, "seconds_ago");
    }
    LogBatch batch = {allocate_array<LogLine>(ids.count), ids.count, allocate_array<LoggedAttempt>(ids.count), 0};
    for (int i = 0; i < ids.count; i++) {
        LogLine *line = &batch.lines[i];
        *line = {DatumGetInt64(ids.values[i]), DatumGetInt64(leases.values[i]),
                 truncated_text(lines.values[i], core::kMaxLogLineBytes), core::LogLevel::Info, now};
        if (levels.values != nullptr)
            line->level =
                require_choice<core::LogLevel>("levels", view(DatumGetTextPP(levels.values[i])), core::kLogLevelNames);
        if (ages.values != nullptr) line->written_at = time_of_line(DatumGetFloat8(ages.values[i]), i + 1, now);
        batch.attempts[i] = {};
        batch.attempts[i].job = line->job;
        batch.attempts[i].lease = line->lease;
        batch.attempts[i].position = i;
    }
    LoggedAttempt *all = batch.attempts;
    std::sort(all, all + ids.count, [](const LoggedAttempt &a, const LoggedAttempt &b) {
        return std::tie(a.job, a.lease, a.position) < std::tie(b.job, b.lease, b.position);
    });
    batch.attempt_count = static_cast<int>(std::unique(all, all + ids.count,
                                                       [](const LoggedAttempt &a, const LoggedAttempt &b) {
                                                           return a.job == b.job && a.lease == b.lease;
                                                       }) -
                                           all);
    return batch;
}

// Returns the argument "retry_in", or -1 if it is omitted, which means that the queue's backoff is used.
core::Micros checked_retry_in(FunctionCallInfo fcinfo, int n) {
    return given(fcinfo, n) ? check_span(PG_GETARG_INTERVAL_P(n), "retry_in", Zero::Allowed) : -1;
}

bool required_bool(FunctionCallInfo fcinfo, int n, const char *name) {
    require(fcinfo, n, name);
    return PG_GETARG_BOOL(n);
}

// Reports the lost leases at the given level: WARNING, or ERROR, which rolls back the completions.
void report_lost_leases(int level, const Batch &batch) {
    StringInfoData ids;
    initStringInfo(&ids);
    int lost = 0;
    for (int i = 0; i < batch.count; i++) {
        if (batch.jobs[i].held) continue;
        appendStringInfo(&ids, "%s%lld", lost++ > 0 ? ", " : "", static_cast<long long>(batch.jobs[i].id));
    }
    if (lost > 0)
        ereport(level,
                (errcode(kErrcodeLeaseLost),
                 errmsg_plural("%d of %d leases was lost", "%d of %d leases were lost",
                               static_cast<unsigned long>(lost), lost, batch.count),
                 level < ERROR
                     ? errdetail("These jobs were not completed: %s.", ids.data)
                     : errdetail("No job was completed, because the leases of these jobs were lost: %s.", ids.data),
                 level < ERROR ? 0 : errhint(JOBQ_LOST_HINT)));
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_complete);
PGDLLEXPORT Datum jobq_complete(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    if (given(fcinfo, 2)) check_json_size(PG_GETARG_DATUM(2), "result");
    const bool must_hold = required_bool(fcinfo, 3, "must_hold");
    HeldJob job = held_argument(fcinfo, 1);
    take_extra(&job, fcinfo, 2);
    complete_jobs(&job, 1, scope_of(fcinfo), GetCurrentTimestamp());
    if (!job.held && must_hold) lease_is_lost(job.id);
    PG_RETURN_BOOL(job.held);
}

PG_FUNCTION_INFO_V1(jobq_complete_many);
PGDLLEXPORT Datum jobq_complete_many(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    Batch batch = read_completed(fcinfo);
    const bool must_hold = required_bool(fcinfo, 3, "must_hold");
    ResultSet results(fcinfo);
    complete_jobs(batch.jobs, batch.count, scope_of(fcinfo), GetCurrentTimestamp());
    in_callers_order(&batch);
    if (must_hold) report_lost_leases(ERROR, batch);
    for (int i = 0; i < batch.count; i++)
        results.row({Int64GetDatum(batch.jobs[i].id), BoolGetDatum(batch.jobs[i].held)});
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_complete_and_claim);
PGDLLEXPORT Datum jobq_complete_and_claim(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    Batch batch = read_completed(fcinfo);
    const text *queue = granted_queue(fcinfo, 3, "queue");
    const ClaimRequest request = claim_request(fcinfo, 4, 10);
    ResultSet results(fcinfo);
    RowSink rows(&results);
    complete_jobs(batch.jobs, batch.count, scope_of(fcinfo), GetCurrentTimestamp());
    claim_into(&rows, request, view(queue));
    report_lost_leases(WARNING, batch);
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_complete_and_claim_any);
PGDLLEXPORT Datum jobq_complete_and_claim_any(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    Batch batch = read_completed(fcinfo);
    const QueueArguments queues = queue_arguments(fcinfo, {3, 10, 11, 12, 13});
    const ClaimRequest request = claim_request(fcinfo, 4, 14);
    ResultSet results(fcinfo);
    RowSink rows(&results);
    complete_jobs(batch.jobs, batch.count, scope_of(fcinfo), GetCurrentTimestamp());
    claim_any_into(&rows, request, queues, scope_of(fcinfo));
    report_lost_leases(WARNING, batch);
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_claim_json);
PGDLLEXPORT Datum jobq_claim_json(PG_FUNCTION_ARGS) {
    enum { Queues, WorkerId, WorkerInfo = 7, JobIds, Leases, Results, Patterns, Weights, OldestFirst, Batches };
    require_worker_may(fcinfo);
    const QueueArguments queues = queue_arguments(fcinfo, {Queues, Patterns, Weights, OldestFirst, Batches});
    const bool completes = given(fcinfo, JobIds) || given(fcinfo, Leases) || given(fcinfo, Results);
    Batch batch = completes ? read_completed(fcinfo, JobIds) : Batch{};
    const ClaimRequest request = claim_request(fcinfo, WorkerId, WorkerInfo);
    const bool whole = settings.async_claims && !completes && is_whole_transaction();
    JsonSink jobs;
    if (completes) complete_jobs(batch.jobs, batch.count, scope_of(fcinfo), GetCurrentTimestamp());
    if (is_one_queue(queues))
        claim_into(&jobs, request, queues.queues.items[0]);
    else
        claim_any_into(&jobs, request, queues, scope_of(fcinfo));
    report_lost_leases(WARNING, batch);
    if (whole) allow_async_commit();
    PG_RETURN_DATUM(jobs.done());
}

PG_FUNCTION_INFO_V1(jobq_fail);
PGDLLEXPORT Datum jobq_fail(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    const core::Micros retry_in = checked_retry_in(fcinfo, 3);
    const bool retry = required_bool(fcinfo, 4, "retry");
    if (given(fcinfo, 5)) check_details(PG_GETARG_DATUM(5), "details");
    const QueueScope *scope = scope_of(fcinfo);
    const HeldJob job = with_owner_spi([&] {
        HeldJob one = held_argument(fcinfo, 1);
        take_extra(&one, fcinfo, 2);
        if (given(fcinfo, 5)) one.details = PG_GETARG_DATUM(5);
        fail_jobs(&one, 1, scope, retry_in, retry, GetCurrentTimestamp());
        return one;
    });
    if (!job.held) PG_RETURN_NULL();
    PG_RETURN_DATUM(status_datum(job.status));
}

PG_FUNCTION_INFO_V1(jobq_fail_many);
PGDLLEXPORT Datum jobq_fail_many(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    Batch batch = read_batch(fcinfo, 0, read_extras(fcinfo, 0, 2, TEXTOID, "errors", nullptr),
                             read_extras(fcinfo, 0, 5, JSONBOID, "details", check_details));
    const core::Micros retry_in = checked_retry_in(fcinfo, 3);
    const bool retry = required_bool(fcinfo, 4, "retry");
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi([&] { fail_jobs(batch.jobs, batch.count, scope, retry_in, retry, GetCurrentTimestamp()); });
    in_callers_order(&batch);
    for (int i = 0; i < batch.count; i++) {
        const HeldJob &job = batch.jobs[i];
        const Datum values[2] = {Int64GetDatum(job.id), job.held ? status_datum(job.status) : Datum(0)};
        const bool nulls[2] = {false, !job.held};
        results.row(values, nulls);
    }
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_heartbeat);
PGDLLEXPORT Datum jobq_heartbeat(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    if (given(fcinfo, 2)) check_json_size(PG_GETARG_DATUM(2), "progress");
    HeldJob job = held_argument(fcinfo, 1);
    take_extra(&job, fcinfo, 2);
    may_be_lost([&] { heartbeat_jobs(&job, 1, scope_of(fcinfo)); });
    PG_RETURN_TEXT_P(cstring_to_text(heartbeat_answer(job)));
}

PG_FUNCTION_INFO_V1(jobq_heartbeat_many);
PGDLLEXPORT Datum jobq_heartbeat_many(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    Batch batch = read_batch(fcinfo);
    const Jsonb *info = worker_info_argument(fcinfo, 2);
    ResultSet results(fcinfo);
    may_be_lost([&] { heartbeat_jobs(batch.jobs, batch.count, scope_of(fcinfo)); });
    note_worker(info);
    in_callers_order(&batch);
    for (int i = 0; i < batch.count; i++)
        results.row({Int64GetDatum(batch.jobs[i].id), CStringGetTextDatum(heartbeat_answer(batch.jobs[i]))});
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_heartbeat_worker);
PGDLLEXPORT Datum jobq_heartbeat_worker(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    text *worker_id = require_text(fcinfo, 0, "worker_id");
    check_worker_id(view(worker_id));
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    may_be_lost([&] {
        with_owner_spi([&] {
            HeldJob *held;
            const int count = heartbeat_worker(worker_id, scope, &held);
            for (int i = 0; i < count; i++)
                results.row({Int64GetDatum(held[i].id), CStringGetTextDatum(heartbeat_answer(held[i]))});
        });
    });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_write_log);
PGDLLEXPORT Datum jobq_write_log(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    const LogBatch batch = read_log(fcinfo, GetCurrentTimestamp());
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    LoggedAttempt *attempts = batch.attempts;
    may_be_lost([&] {
        if (batch.count > 0)
            with_owner_spi([&] { write_log_lines(batch.lines, batch.count, attempts, batch.attempt_count, scope); });
    });
    std::sort(attempts, attempts + batch.attempt_count,
              [](const LoggedAttempt &a, const LoggedAttempt &b) { return a.position < b.position; });
    for (int i = 0; i < batch.attempt_count; i++)
        results.row({Int64GetDatum(attempts[i].job), Int32GetDatum(attempts[i].stored)});
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_release);
PGDLLEXPORT Datum jobq_release(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        HeldJob one = held_argument(fcinfo, 1);
        give_back_jobs(&one, 1, scope, 0, AttemptOutcome::Released, GetCurrentTimestamp());
        return one.held;
    }));
}

PG_FUNCTION_INFO_V1(jobq_release_many);
PGDLLEXPORT Datum jobq_release_many(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    Batch batch = read_batch(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi(
        [&] { give_back_jobs(batch.jobs, batch.count, scope, 0, AttemptOutcome::Released, GetCurrentTimestamp()); });
    in_callers_order(&batch);
    for (int i = 0; i < batch.count; i++)
        results.row({Int64GetDatum(batch.jobs[i].id), BoolGetDatum(batch.jobs[i].held)});
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_snooze);
PGDLLEXPORT Datum jobq_snooze(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    require(fcinfo, 1, "delay");
    const core::Micros delay = check_span(PG_GETARG_INTERVAL_P(1), "delay", Zero::Allowed);
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        HeldJob one = held_argument(fcinfo, 2);
        give_back_jobs(&one, 1, scope, delay, AttemptOutcome::Snoozed, GetCurrentTimestamp());
        return one.held;
    }));
}

}  // extern "C"

}  // namespace jobq
