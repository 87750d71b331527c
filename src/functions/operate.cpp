// Operators' functions on jobs: one by its id, or many of a queue by a filter.
#include "pg/pg.h"

#include "functions/result_set.h"
#include "functions/status.h"
#include "pg/args.h"
#include "store/directory.h"
#include "store/operate.h"

namespace jobq {

namespace {

// Applies an operation to one job; the job's status afterwards, NULL when it is unknown.
Datum operate_on_one(FunctionCallInfo fcinfo, Operation operation, TimestampTz run_at) {
    Datum id = Int64GetDatum(require_int64(fcinfo, 0, "job_id"));
    bool found = false;
    core::JobStatus status = core::JobStatus::Pending;
    with_spi([&] {
        const Rows changed = operate(operation, array_of(&id, 1, INT8OID), run_at, GetCurrentTimestamp());
        found = changed.size() == 1 ? core::parse_status(TextDatumGetCString(changed[0].get(2)), &status)
                                    : current_status(DatumGetInt64(id), &status);
    });
    if (!found) PG_RETURN_NULL();
    PG_RETURN_DATUM(status_datum(status));
}

// The statuses that a set operation covers when the caller names none.
bool covered_by_default(Operation operation, core::JobStatus status) {
    switch (operation) {
        case Operation::Retry:
            return status == core::JobStatus::Failed;
        case Operation::Delete:
            return core::is_finished(status);
        case Operation::Cancel:
        case Operation::Reschedule:
            break;
    }
    return operation_applies(operation, status);
}

// The parameters from kind on are the same in all set operations; `first` is the position of kind.
JobFilter read_filter(FunctionCallInfo fcinfo, int first, Operation operation) {
    JobFilter filter = {};
    filter.queue = require_text(fcinfo, 0, "queue");
    check_queue_name(view(filter.queue), "queue");
    if (given(fcinfo, first)) {
        filter.kind = PG_GETARG_TEXT_PP(first);
        check_name(view(filter.kind), "kind", core::kMaxKindBytes, true);
    }
    read_statuses(fcinfo, first + 1, operation, covered_by_default, filter.statuses);
    if (given(fcinfo, first + 2)) filter.error_like = PG_GETARG_TEXT_PP(first + 2);
    filter.has_created_before = given(fcinfo, first + 3);
    if (filter.has_created_before) {
        const core::Micros age = check_span(PG_GETARG_INTERVAL_P(first + 3), "older_than", Zero::Allowed);
        filter.created_before = core::saturating_add(GetCurrentTimestamp(), -age);
    }
    filter.has_metadata = given(fcinfo, first + 4);
    if (filter.has_metadata) filter.metadata = PG_GETARG_DATUM(first + 4);
    require(fcinfo, first + 5, "max_jobs");
    filter.max_jobs = PG_GETARG_INT32(first + 5);
    if (filter.max_jobs < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"max_jobs\" must not be negative"),
                        errhint("It is the largest number of jobs to change; 0 changes none.")));
    return filter;
}

Datum operate_on_matching(const JobFilter &filter, Operation operation, TimestampTz run_at) {
    PG_RETURN_INT64(with_spi([&] {
        require_known_queue(view(filter.queue));
        const Rows matching = lock_matching(filter);
        if (matching.size() == 0) return INT64CONST(0);
        auto *ids = static_cast<Datum *>(palloc_extended(sizeof(Datum) * matching.size(), MCXT_ALLOC_HUGE));
        for (uint64 i = 0; i < matching.size(); i++) ids[i] = matching[i].get(1);
        const Datum array = array_of(ids, static_cast<int>(matching.size()), INT8OID);
        return static_cast<int64>(operate(operation, array, run_at, GetCurrentTimestamp()).size());
    }));
}

TimestampTz required_run_at(FunctionCallInfo fcinfo, int n) {
    require(fcinfo, n, "run_at");
    return check_finite(PG_GETARG_TIMESTAMPTZ(n), "run_at");
}

// Returns the rows that read_rows(job_id) finds, as they are.
template <int kColumns>
Datum return_rows(FunctionCallInfo fcinfo, Rows (*read_rows)(int64)) {
    const int64 id = require_int64(fcinfo, 0, "job_id");
    ResultSet results(fcinfo);
    with_spi([&] {
        const Rows rows = read_rows(id);
        for (uint64 i = 0; i < rows.size(); i++) {
            Datum values[kColumns];
            bool nulls[kColumns];
            for (int c = 0; c < kColumns; c++) values[c] = rows[i].get(c + 1, &nulls[c]);
            results.row(values, nulls);
        }
    });
    return results.done();
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_get);
PGDLLEXPORT Datum jobq_get(PG_FUNCTION_ARGS) { return return_rows<22>(fcinfo, read_job); }

PG_FUNCTION_INFO_V1(jobq_job_log);
PGDLLEXPORT Datum jobq_job_log(PG_FUNCTION_ARGS) { return return_rows<5>(fcinfo, read_job_log); }

PG_FUNCTION_INFO_V1(jobq_result);
PGDLLEXPORT Datum jobq_result(PG_FUNCTION_ARGS) {
    const int64 id = require_int64(fcinfo, 0, "job_id");
    bool none = true;
    const Datum result = with_spi([&] {
        const Rows rows = read_result(id);
        const Datum value = rows.size() == 1 ? rows[0].get(1, &none) : Datum(0);
        return none ? Datum(0) : SPI_datumTransfer(value, false, -1);
    });
    if (none) PG_RETURN_NULL();
    PG_RETURN_DATUM(result);
}

PG_FUNCTION_INFO_V1(jobq_cancel);
PGDLLEXPORT Datum jobq_cancel(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return operate_on_one(fcinfo, Operation::Cancel, 0);
}

PG_FUNCTION_INFO_V1(jobq_retry);
PGDLLEXPORT Datum jobq_retry(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    return operate_on_one(fcinfo, Operation::Retry, 0);
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

}  // extern "C"

}  // namespace jobq
