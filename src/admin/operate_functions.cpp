// SQL functions with which operators change one job, selected by its id, or many jobs in a queue, selected by a filter.
#include "compat/pg.h"

#include "admin/filter_keys.h"
#include "admin/fork.h"
#include "admin/operate.h"
#include "admin/retry.h"
#include "admin/statuses_argument.h"
#include "compat/args.h"
#include "compat/result_set.h"
#include "finish/log_lines.h"
#include "groups/halted.h"
#include "log/rows.h"
#include "queues/directory.h"
#include "queues/granted.h"
#include "queues/known_queues.h"
#include "row/current_status.h"
#include "row/owner.h"
#include "row/payload.h"
#include "row/status.h"
#include "steps/step_policy.h"

#include <cmath>

namespace jobq {

namespace {

// Records an operation on one job.
void note_operation(Operation operation, int64 job, TimestampTz now) {
    if (operation == Operation::Cancel) write_operator_line(job, "cancellation requested", "", now);
    if (operation == Operation::Reschedule) write_operator_line(job, "rescheduled", "", now);
}

// Applies an operation to one job. Returns the job's new status, its previous status if it was deleted, or its current
// status if the operation does not apply to it. Returns NULL if the job does not exist.
Datum operate_on_one(FunctionCallInfo fcinfo, Operation operation, TimestampTz run_at) {
    Datum id = Int64GetDatum(require_int64(fcinfo, 0, "job_id"));
    const QueueScope *scope = scope_of(fcinfo);
    bool found = false;
    core::JobStatus status = core::JobStatus::Pending;
    with_owner_spi([&] {
        const TimestampTz now = GetCurrentTimestamp();
        const Operated operated = operate(operation, array_of(&id, 1, INT8OID), scope, run_at, now);
        status = operated.status;
        if (operated.count == 1) note_operation(operation, DatumGetInt64(id), now);
        found = operated.count == 1 ||
                (job_is_in_scope(scope, DatumGetInt64(id)) && current_status(DatumGetInt64(id), &status));
    });
    if (!found) PG_RETURN_NULL();
    PG_RETURN_DATUM(status_datum(status));
}

// Calls retry() and returns the job's status afterward, or NULL if the job does not exist. For a dead letter, the queue
// to which a retry moves the job back must be in scope.
template <typename Retry>
Datum status_after(FunctionCallInfo fcinfo, int64 id, const QueueScope *scope, Retry retry) {
    bool found = false;
    core::JobStatus status = core::JobStatus::Pending;
    with_owner_spi([&] {
        retry();
        found = home_is_in_scope(scope, id) && current_status(id, &status);
    });
    if (!found) PG_RETURN_NULL();
    PG_RETURN_DATUM(status_datum(status));
}

// Reads the arguments of jobq_retry that change the job.
RetryChanges retry_changes(FunctionCallInfo fcinfo) {
    RetryChanges changes = {};
    changes.caller = GetUserId();
    if (given(fcinfo, 1)) {
        changes.payload = PG_GETARG_DATUM(1);
        check_json_size(changes.payload, "payload");
    }
    if (given(fcinfo, 2)) changes.run_at = check_finite(PG_GETARG_TIMESTAMPTZ(2), "run_at");
    if (given(fcinfo, 3)) changes.max_attempts = check_positive(PG_GETARG_INT32(3), "max_attempts");
    require(fcinfo, 4, "keep_steps");
    changes.keep_steps = PG_GETARG_BOOL(4);
    return changes;
}

// Returns whether an operation on many jobs selects jobs in this status if the caller omits the argument `statuses`.
bool covered_by_default(Operation operation, core::JobStatus status) {
    if (operation == Operation::Retry) return status == core::JobStatus::Failed;
    if (operation == Operation::Delete) return core::is_finished(status);
    return operation_applies(operation, status);
}

int32 required_max_jobs(FunctionCallInfo fcinfo, int n) {
    require(fcinfo, n, "max_jobs");
    return check_max_jobs(PG_GETARG_INT32(n));
}

// Raises an error for a pattern that ends with an escape character. LIKE would raise this error only if a comparison
// reached the end of the pattern.
void check_like_pattern(std::string_view pattern, const char *name) {
    const size_t last = pattern.find_last_not_of('\\');
    const size_t escapes = pattern.size() - (last == std::string_view::npos ? 0 : last + 1);
    if (escapes % 2 != 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_ESCAPE_SEQUENCE),
                        errmsg("argument \"%s\" must not end with an escape character", name),
                        errhint("Write two backslashes to match a single backslash.")));
}

// Returns the argument per_second, or 0 if it is omitted.
double rate_argument(FunctionCallInfo fcinfo, int n, const char *name) {
    if (!given(fcinfo, n)) return 0;
    const double rate = PG_GETARG_FLOAT8(n);
    if (!(rate > 0) || !std::isfinite(rate))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"%s\" must be a finite number greater than 0", name),
                        errhint("Specify the number of jobs that become claimable per second, or omit the argument to "
                                "make all jobs claimable at once.")));
    return rate;
}

// Reads the parameters that all operations on many jobs share: `queue`, and the parameters from `kind` on. `first` is
// the position of `kind`.
JobFilter read_filter(FunctionCallInfo fcinfo, int first, Operation operation) {
    JobFilter filter = {};
    filter.queue = granted_queue(fcinfo, 0, "queue");
    filter.scope = scope_of(fcinfo);
    if (given(fcinfo, first)) {
        filter.kind = PG_GETARG_TEXT_PP(first);
        check_name(view(filter.kind), "kind", core::kMaxKindBytes, true);
    }
    filter.statuses = read_statuses(fcinfo, first + 1, operation, covered_by_default);
    if (given(fcinfo, first + 2)) {
        filter.error_like = PG_GETARG_TEXT_PP(first + 2);
        check_like_pattern(view(filter.error_like), "error_like");
    }
    filter.has_created_before = given(fcinfo, first + 3);
    if (filter.has_created_before) {
        const core::Micros age = check_span(PG_GETARG_INTERVAL_P(first + 3), "older_than", Zero::Allowed);
        filter.created_before = core::saturating_add(GetCurrentTimestamp(), -age);
    }
    filter.has_metadata = given(fcinfo, first + 4);
    if (filter.has_metadata) filter.metadata = PG_GETARG_DATUM(first + 4);
    filter.max_jobs = required_max_jobs(fcinfo, first + 5);
    if (given(fcinfo, first + 6)) read_filter_keys(PG_GETARG_JSONB_P(first + 6), &filter);
    return filter;
}

Datum operate_on_matching(const JobFilter &filter, Operation operation, TimestampTz run_at) {
    PG_RETURN_INT64(with_owner_spi([&] {
        require_known_queue(view(filter.queue));
        const TimestampTz now = GetCurrentTimestamp();
        const Rows matching = lock_matching(filter, operation, run_at, now);
        if (matching.size() == 0) {
            warn_of_unknown_queue(view(filter.queue), filter.scope);
            return INT64CONST(0);
        }
        const Datum array = array_of(first_column(matching), static_cast<int>(matching.size()), INT8OID);
        return operate_on_many(operation, array, run_at, now);
    }));
}

TimestampTz required_run_at(FunctionCallInfo fcinfo, int n) {
    require(fcinfo, n, "run_at");
    return check_finite(PG_GETARG_TIMESTAMPTZ(n), "run_at");
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_cancel);
PGDLLEXPORT Datum jobq_cancel(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return operate_on_one(fcinfo, Operation::Cancel, 0);
}

PG_FUNCTION_INFO_V1(jobq_skip);
PGDLLEXPORT Datum jobq_skip(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const int64 id = require_int64(fcinfo, 0, "job_id");
    const QueueScope *scope = scope_of(fcinfo);
    PG_RETURN_BOOL(with_owner_spi([&] {
        const TimestampTz now = GetCurrentTimestamp();
        if (!skip_job(id, scope, now)) return false;
        write_operator_line(id, "skipped", "", now);
        return true;
    }));
}

PG_FUNCTION_INFO_V1(jobq_retry);
PGDLLEXPORT Datum jobq_retry(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const int64 id = require_int64(fcinfo, 0, "job_id");
    const RetryChanges changes = retry_changes(fcinfo);
    const QueueScope *scope = scope_of(fcinfo);
    return status_after(fcinfo, id, scope, [&] { retry_job(id, changes, scope, GetCurrentTimestamp()); });
}

PG_FUNCTION_INFO_V1(jobq_retry_from);
PGDLLEXPORT Datum jobq_retry_from(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const int64 id = require_int64(fcinfo, 0, "job_id");
    text *step = require_text(fcinfo, 1, "step");
    check_name(view(step), "step", core::kMaxStepBytes, false);
    const QueueScope *scope = scope_of(fcinfo);
    return status_after(fcinfo, id, scope, [&] { retry_from(id, step, scope, GetCurrentTimestamp()); });
}

PG_FUNCTION_INFO_V1(jobq_fork);
PGDLLEXPORT Datum jobq_fork(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const int64 id = require_int64(fcinfo, 0, "job_id");
    text *step = nullptr;
    if (given(fcinfo, 1)) {
        step = PG_GETARG_TEXT_PP(1);
        check_name(view(step), "step", core::kMaxStepBytes, false);
    }
    const QueueScope *scope = scope_of(fcinfo);
    const core::OptInt64 copy = with_owner_spi([&] { return fork_job(id, step, scope, GetCurrentTimestamp()); });
    if (!copy) PG_RETURN_NULL();
    PG_RETURN_INT64(*copy);
}

PG_FUNCTION_INFO_V1(jobq_reschedule);
PGDLLEXPORT Datum jobq_reschedule(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    require(fcinfo, 0, "job_id");
    return operate_on_one(fcinfo, Operation::Reschedule, required_run_at(fcinfo, 1));
}

PG_FUNCTION_INFO_V1(jobq_delete);
PGDLLEXPORT Datum jobq_delete(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return operate_on_one(fcinfo, Operation::Delete, 0);
}

PG_FUNCTION_INFO_V1(jobq_cancel_jobs);
PGDLLEXPORT Datum jobq_cancel_jobs(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return operate_on_matching(read_filter(fcinfo, 1, Operation::Cancel), Operation::Cancel, 0);
}

PG_FUNCTION_INFO_V1(jobq_retry_jobs);
PGDLLEXPORT Datum jobq_retry_jobs(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return operate_on_matching(read_filter(fcinfo, 1, Operation::Retry), Operation::Retry, 0);
}

PG_FUNCTION_INFO_V1(jobq_reschedule_jobs);
PGDLLEXPORT Datum jobq_reschedule_jobs(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const TimestampTz run_at = required_run_at(fcinfo, 1);
    return operate_on_matching(read_filter(fcinfo, 2, Operation::Reschedule), Operation::Reschedule, run_at);
}

PG_FUNCTION_INFO_V1(jobq_delete_jobs);
PGDLLEXPORT Datum jobq_delete_jobs(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return operate_on_matching(read_filter(fcinfo, 1, Operation::Delete), Operation::Delete, 0);
}

PG_FUNCTION_INFO_V1(jobq_redrive);
PGDLLEXPORT Datum jobq_redrive(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    text *queue = granted_queue(fcinfo, 0, "queue");
    const QueueScope *scope = scope_of(fcinfo);
    const int32 max_jobs = required_max_jobs(fcinfo, 1);
    const double per_second = rate_argument(fcinfo, 2, "per_second");
    PG_RETURN_INT64(with_owner_spi([&] {
        require_known_queue(view(queue));
        const int64 redriven = redrive(queue, scope, max_jobs, per_second, GetCurrentTimestamp());
        if (redriven == 0) warn_of_unknown_queue(view(queue), scope);
        return redriven;
    }));
}

}  // extern "C"

}  // namespace jobq
