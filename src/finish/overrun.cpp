// See overrun.h.
#include "compat/pg.h"

#include "core/clock.h"
#include "finish/overrun.h"

namespace jobq {

namespace {

const char *overrun_error(const core::Life &before, const core::Life &after) {
    const core::Micros allowed = before.must_end_at && before.started_at ? core::bounded_moment(*before.must_end_at) -
                                                                               core::bounded_moment(*before.started_at)
                                                                         : 0;
    const char *lead = psprintf("ran longer than max_runtime (%g s)", static_cast<double>(allowed) / core::kSecond);
    return after.status == core::JobStatus::Failed
               ? psprintf("%s; attempts exhausted (%d of %d)", lead, after.attempts, after.max_attempts)
               : lead;
}

}  // namespace

bool end_overrun(JobsTable *jobs, const JobState &before, TimestampTz now, Endings *endings) {
    const core::QueueSettings &settings = settings_for(*find_queue(before.queue), before.kind);
    core::Event event = {core::EventKind::Overran, now};
    event.on_max_runtime = settings.on_max_runtime;
    event.delay = retry_delay(settings, before.life.attempts);
    event.halts_group = settings.group_on_failure == core::GroupOnFailure::Halt;
    const core::Life after = core::after_event(before.life, event);
    const bool cancelled = after.status == core::JobStatus::Cancelled;
    text *error = cstring_to_text(overrun_error(before.life, after));
    return end_attempt(jobs, before, after,
                       {cancelled ? AttemptOutcome::Cancelled : AttemptOutcome::Failed, error, false}, now, endings);
}

}  // namespace jobq
