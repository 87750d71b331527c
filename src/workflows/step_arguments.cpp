// See step_arguments.h.
#include "compat/pg.h"

#include "compat/settings.h"
#include "workflows/step_arguments.h"

extern "C" {
#include "access/detoast.h"
}

namespace jobq {

text *step_name_argument(FunctionCallInfo fcinfo, int n, const char *name) {
    text *value = require_text(fcinfo, n, name);
    check_name(view(value), name, core::kMaxStepBytes, false);
    return value;
}

text *event_argument(FunctionCallInfo fcinfo, int n) {
    text *value = require_text(fcinfo, n, "event");
    check_name(view(value), "event", core::kMaxEventBytes, false);
    return value;
}

void check_step_size(Datum value, const char *name) {
    const Size size = toast_raw_datum_size(value);
    const Size limit = static_cast<Size>(settings.max_step_kb) * 1024;
    if (size > limit)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("argument \"%s\" is too large: %zu bytes", name, size),
                 errhint("The limit is jobq.max_step_bytes, now %d kB. Store large data elsewhere and pass a "
                         "reference.",
                         settings.max_step_kb)));
}

HeldJob held_argument(FunctionCallInfo fcinfo) {
    HeldJob job = {};
    job.id = require_int64(fcinfo, 0, "job_id");
    job.lease = given(fcinfo, 1) ? PG_GETARG_INT64(1) : lease_claimed_here(job.id);
    return job;
}

int64 next_step(const JobState &job) {
    const int64 next = job.life.steps.value_or(0) + 1;
    if (next > settings.max_steps)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("job %lld has too many steps: %lld", static_cast<long long>(job.id),
                               static_cast<long long>(next - 1)),
                        errhint("The limit is jobq.max_steps, now %d. Let the job enqueue another one that goes on.",
                                settings.max_steps)));
    return next;
}

}  // namespace jobq
