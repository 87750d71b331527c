// See statuses_argument.h.
#include "compat/pg.h"

#include "admin/statuses_argument.h"
#include "compat/args.h"
#include "row/status.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

// Returns the statuses to which the operation applies as a text of the form "a, b and c".
const char *applicable_statuses(Operation operation) {
    int left = 0;
    for (const core::StatusRow &row : core::kJobStatuses)
        if (operation_applies(operation, row.status)) left++;
    StringInfoData list;
    initStringInfo(&list);
    for (const core::StatusRow &row : core::kJobStatuses) {
        if (!operation_applies(operation, row.status)) continue;
        left--;
        appendStringInfo(&list, "%s%s", row.label, left > 1 ? ", " : left == 1 ? " and " : "");
    }
    return list.data;
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
        if (!operation_applies(operation, status))
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("argument \"statuses\" names \"%s\", which this function does not apply to",
                                   core::status_name(status)),
                            errhint("It applies to %s jobs.", applicable_statuses(operation))));
        wanted[static_cast<int>(status)] = true;
    }
    return names_of_statuses([&](core::JobStatus status) { return wanted[static_cast<int>(status)]; });
}

int32 check_max_jobs(int32 max_jobs) {
    if (max_jobs < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"max_jobs\" must not be negative"),
                        errhint("It is the maximum number of jobs to change; 0 changes none.")));
    return max_jobs;
}

}  // namespace jobq
