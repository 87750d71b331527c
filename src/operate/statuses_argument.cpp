// See statuses_argument.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "job/status.h"
#include "operate/statuses_argument.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

// "completed, failed and cancelled".
const char *applicable_statuses(Operation operation) {
    int left = 0;
    for (int i = 0; i < core::kJobStatusCount; i++)
        if (operation_applies(operation, static_cast<core::JobStatus>(i))) left++;
    StringInfoData list;
    initStringInfo(&list);
    for (int i = 0; i < core::kJobStatusCount; i++) {
        const auto status = static_cast<core::JobStatus>(i);
        if (!operation_applies(operation, status)) continue;
        left--;
        appendStringInfo(&list, "%s%s", core::status_name(status), left > 1 ? ", " : left == 1 ? " and " : "");
    }
    return list.data;
}

}  // namespace

void read_statuses(FunctionCallInfo fcinfo, int n, Operation operation, bool (*by_default)(Operation, core::JobStatus),
                   bool *wanted) {
    for (int i = 0; i < core::kJobStatusCount; i++)
        wanted[i] = !given(fcinfo, n) && by_default(operation, static_cast<core::JobStatus>(i));
    if (!given(fcinfo, n)) return;
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
}

}  // namespace jobq
