// See step_arguments.h.
#include "compat/pg.h"

#include "compat/settings.h"
#include "row/payload.h"
#include "workflows/step_arguments.h"

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
    check_json_size(value, name, settings.max_step_kb, "jobq.max_step_bytes");
}

SavedStep save_under_lease(HeldJob *job, const QueueScope *scope, const StepUse &use, int64 *number) {
    SavedStep saved = {};
    change_held(job, 1, scope, [&](JobsTable *jobs, const JobState &before, HeldJob *) {
        saved = {};
        if (before.life.steps) saved = find_step(*jobs, job->id, use);
        core::Event event = {core::event_of_saving(saved.found), GetCurrentTimestamp()};
        if (!saved.found) event.last_step = *number = next_step(before);
        return write_life(jobs, before, core::after_event(before.life, event));
    });
    return saved;
}

int64 next_step(const JobState &job) {
    const int64 next = job.life.steps.value_or(0) + 1;
    if (next > settings.max_steps)
        ereport(
            ERROR,
            (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
             errmsg("job %lld has too many steps: %lld", static_cast<long long>(job.id),
                    static_cast<long long>(next - 1)),
             errhint(
                 "Enqueue another job that continues the work. The maximum number of steps is %d (\"jobq.max_steps\").",
                 settings.max_steps)));
    return next;
}

}  // namespace jobq
