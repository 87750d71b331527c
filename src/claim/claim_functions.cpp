// The SQL functions jobq_claim and jobq_claim_any.
#include "compat/pg.h"

#include "claim/claim_functions.h"
#include "compat/args.h"
#include "compat/async_commit.h"
#include "compat/settings.h"
#include "identity/identity.h"
#include "job/job_arguments.h"
#include "metrics/connected_workers.h"
#include "metrics/recent_filters.h"
#include "queues/granted.h"

namespace jobq {

namespace {

int checked_batch(FunctionCallInfo fcinfo, int n) {
    require(fcinfo, n, "batch");
    const int batch = PG_GETARG_INT32(n);
    if (batch < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"batch\" must be at least 0, not %d", batch),
                        errhint("Specify the maximum number of jobs to claim; 0 claims none.")));
    if (batch > core::kMaxBatch)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("argument \"batch\" is too large: %d", batch),
                        errhint("At most %d jobs can be claimed in one call.", core::kMaxBatch)));
    return batch;
}

}  // namespace

core::WorkerFilter checked_filter(FunctionCallInfo fcinfo, int first) {
    core::WorkerFilter filter = {};
    if (given(fcinfo, first)) {
        const Names kinds = names_of(PG_GETARG_ARRAYTYPE_P(first), "kinds", core::kMaxKindBytes, core::kMaxNames);
        filter.kinds = kinds.items;
        filter.kind_count = kinds.count;
    }
    if (given(fcinfo, first + 1)) {
        const Elements versions = require_elements(fcinfo, first + 1, INT4OID, "versions", core::kMaxNames);
        auto *numbers = static_cast<int32 *>(palloc(sizeof(int32) * Max(versions.count, 1)));
        for (int i = 0; i < versions.count; i++) numbers[i] = DatumGetInt32(versions.values[i]);
        filter.versions = numbers;
        filter.version_count = versions.count;
    }
    if (given(fcinfo, first + 2)) {
        const Names capabilities =
            names_of(PG_GETARG_ARRAYTYPE_P(first + 2), "capabilities", core::kMaxCapabilityBytes, core::kMaxNames);
        filter.capabilities = capabilities.items;
        filter.capability_count = core::canonical_set(capabilities.items, capabilities.count);
    }
    return filter;
}

void check_worker_id(std::string_view worker_id) {
    check_name(worker_id, "worker_id", core::kMaxWorkerBytes, false);
    if (worker_id.substr(0, sizeof(kBackendWorkerPrefix) - 1) == kBackendWorkerPrefix)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("argument \"worker_id\" must not begin with \"%s\"", kBackendWorkerPrefix),
                 errhint("Choose another name. This prefix is reserved for workers that claim without a name.")));
}

text *worker_id_argument(FunctionCallInfo fcinfo, int n) {
    text *worker_id = nullptr;
    if (given(fcinfo, n))
        worker_id = PG_GETARG_TEXT_PP(n);
    else if (settings.worker_id != nullptr && settings.worker_id[0] != '\0')
        worker_id = cstring_to_text(settings.worker_id);
    if (worker_id != nullptr) check_worker_id(view(worker_id));
    return worker_id;
}

text *worker_id_or_default(FunctionCallInfo fcinfo, int n) {
    text *worker_id = worker_id_argument(fcinfo, n);
    if (worker_id != nullptr) return worker_id;
    return cstring_to_text(psprintf("%s%d", kBackendWorkerPrefix, MyProcPid));
}

ClaimRequest claim_request(FunctionCallInfo fcinfo, int first, int info) {
    ClaimRequest request = {};
    request.worker_id = worker_id_or_default(fcinfo, first);
    request.batch = checked_batch(fcinfo, first + 1);
    request.filter = checked_filter(fcinfo, first + 2);
    if (given(fcinfo, first + 5)) request.heartbeat_timeout = check_heartbeat_timeout(PG_GETARG_INTERVAL_P(first + 5));
    request.worker_info = worker_info_argument(fcinfo, info, request.worker_id);
    return request;
}

int claim_into(ClaimSink *sink, const ClaimRequest &request, std::string_view queue) {
    require_known_queue(queue);
    if (request.batch == 0) return 0;
    const TimestampTz now = GetCurrentTimestamp();
    note_filter(queue, request.filter, now);
    const int claimed = claim_jobs(request, queue, now, sink);
    note_worker(request.worker_info, claimed > 0);
    return claimed;
}

void claim_any_into(ClaimSink *sink, const ClaimRequest &request, const QueueArguments &queues,
                    const QueueScope *scope) {
    const int claimed = claim_selected(request, queues, scope, sink);
    note_worker(request.worker_info, claimed > 0);
}

extern "C" {

PG_FUNCTION_INFO_V1(jobq_claim);
PGDLLEXPORT Datum jobq_claim(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    const text *queue = granted_queue(fcinfo, 0, "queue");
    const ClaimRequest request = claim_request(fcinfo, 1, 7);
    ResultSet results(fcinfo);
    RowSink rows(&results);
    const bool whole = settings.async_claims && is_whole_transaction();
    claim_into(&rows, request, view(queue));
    if (whole) allow_async_commit();
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_claim_any);
PGDLLEXPORT Datum jobq_claim_any(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    const QueueArguments queues = queue_arguments(fcinfo, {0, 7, 8, 9, 10});
    const ClaimRequest request = claim_request(fcinfo, 1, 11);
    ResultSet results(fcinfo);
    RowSink rows(&results);
    const bool whole = settings.async_claims && is_whole_transaction();
    claim_any_into(&rows, request, queues, scope_of(fcinfo));
    if (whole) allow_async_commit();
    return results.done();
}

}  // extern "C"

}  // namespace jobq
