// See statuses_argument.h.
#include "compat/pg.h"

#include "admin/statuses_argument.h"
#include "compat/args.h"
#include "row/status.h"

namespace jobq {

namespace {

[[noreturn]] void refuse_status(core::JobStatus status, Operation operation) {
    std::string_view choices[core::kJobStatusCount];
    int count = 0;
    for (const core::StatusRow &row : core::kJobStatuses)
        if (operation_applies(operation, row.status)) choices[count++] = row.label;
    refuse_choice("statuses", core::status_name(status), choices, count);
}

}  // namespace

Datum read_statuses(FunctionCallInfo fcinfo, int n, Operation operation,
                    bool (*by_default)(Operation, core::JobStatus)) {
    if (!given(fcinfo, n))
        return names_of_statuses([&](core::JobStatus status) { return by_default(operation, status); });
    bool wanted[core::kJobStatusCount] = {};
    const Elements statuses = require_elements(fcinfo, n, status_type(), "statuses", core::kMaxBatch);
    for (int i = 0; i < statuses.count; i++) {
        const core::JobStatus status = status_of(statuses.values[i]);
        if (!operation_applies(operation, status)) refuse_status(status, operation);
        wanted[static_cast<int>(status)] = true;
    }
    return names_of_statuses([&](core::JobStatus status) { return wanted[static_cast<int>(status)]; });
}

int32 check_max_jobs(int32 max_jobs) {
    if (max_jobs < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"max_jobs\" must be at least 0, not %d", max_jobs),
                        errhint("Specify the maximum number of jobs to change; 0 changes none.")));
    return max_jobs;
}

}  // namespace jobq
