// jobq_sleep and jobq_await: a job that waits holds no worker. Its deadline is saved with the first call, and what it
// waited for is decided by a later one, under its lease, and nowhere else.
#include "compat/pg.h"

#include "base/clock.h"
#include "compat/args.h"
#include "compat/result_set.h"
#include "ending/ending.h"
#include "identity/identity.h"
#include "job/change_job.h"
#include "job/owner.h"
#include "job/transaction_log.h"
#include "queues/scope.h"
#include "steps/signals.h"
#include "steps/steps.h"
#include "workflows/step_arguments.h"

namespace jobq {

namespace {

// What a call waits for.
struct Awaited {
    text *name;
    core::StepKind kind;
    text *event;           // nullptr: a time only
    core::Maybe deadline;  // of the first call
};

// What it is answered.
struct Answered {
    bool held;
    core::WaitAnswer answer;
    Datum payload;  // jsonb
    bool has_payload;
};

// What one look at the job has come to.
struct Look {
    SavedStep saved;
    core::Maybe deadline;
    Signal signal;
    core::WaitAnswer answer;
    bool decided;  // by a call before
    int64 number;
    int64 awaited;
};

Look look_at(const JobsTable &jobs, const JobState &before, const Awaited &awaited, TimestampTz now) {
    Look look = {};
    if (before.life.steps) look.saved = find_step(jobs, before.id, awaited.name, awaited.kind, awaited.event);
    look.decided = look.saved.found && look.saved.state != core::StepState::Waiting;
    if (look.decided) {
        look.answer = core::decided_wait(look.saved.state);
        return look;
    }
    look.deadline = look.saved.found ? look.saved.until : awaited.deadline;
    if (awaited.event != nullptr) {
        look.signal = find_signal(before.id, make_text(before.queue), awaited.event, jobs.table.snapshot);
        look.awaited = core::event_hash(before.queue, view(awaited.event));
    }
    const core::Wait wait = {look.signal.there, before.life.cancel_requested_at.has_value(), awaited.event == nullptr,
                             look.deadline};
    look.answer = core::decide_wait(wait, now);
    look.number = look.saved.found ? *before.life.steps : 0;
    return look;
}

// Writes what the look has come to into the job's row. False: look again.
bool write_look(JobsTable *jobs, const JobState &before, const Awaited &awaited, Look *look, TimestampTz now,
                Endings *endings) {
    if (look->decided || look->answer == core::WaitAnswer::Cancelled) return true;
    if (!look->saved.found) look->number = next_step(before);
    const bool waits = look->answer == core::WaitAnswer::Waiting;
    core::Event event = {waits ? core::EventKind::Waited : core::EventKind::StepSaved, now};
    event.last_step = look->number;
    event.sleeps = awaited.event == nullptr;
    event.deadline = look->deadline;
    if (event.sleeps) event.run_at = look->deadline.value_or(now);
    const core::Life after = core::after_event(before.life, event);
    return waits ? end_attempt(jobs, before, after, {"snoozed", nullptr, true}, now, endings)
                 : write_life(jobs, before, after);
}

// The same into jobq.steps, where nobody else writes of this job until we commit.
void save_look(int64 job, const Awaited &awaited, const Look &look) {
    const bool waits = look.answer == core::WaitAnswer::Waiting;
    const core::StepState state = waits                                      ? core::StepState::Waiting
                                  : look.answer == core::WaitAnswer::Timeout ? core::StepState::Timeout
                                                                             : core::StepState::Done;
    if (!look.saved.found)
        add_step({job, look.number, awaited.name, awaited.kind, state, look.deadline, awaited.event,
                  waits ? look.awaited : 0, look.signal.payload, look.signal.has_payload});
    else if (!waits)
        decide_step(job, awaited.name, state, look.signal.has_payload, look.signal.payload);
    else if (look.awaited != 0)
        arm_step(job, awaited.name, look.awaited);
    if (!waits || look.awaited == 0) return;
    disarm_other_steps(job, awaited.name);
    // The signal may have been sent since we looked.
    log_unblocked(Blocker::Wait, job, kFromTheFirst);
}

// Inside with_spi().
Answered wait_for(HeldJob job, const QueueScope *scope, const Awaited &awaited, TimestampTz now) {
    require_steps();
    Look look = {};
    Endings endings = {};
    change_held(&job, 1, scope, [&](JobsTable *jobs, const JobState &before, HeldJob *) {
        look = look_at(*jobs, before, awaited, now);
        return write_look(jobs, before, awaited, &look, now, &endings);
    });
    Answered answered = {job.held, look.answer, Datum(0), false};
    if (!job.held) return answered;
    if (look.decided) {
        answered.payload = look.saved.result;
        answered.has_payload = look.saved.has_result;
    } else if (look.answer != core::WaitAnswer::Cancelled) {
        save_look(job.id, awaited, look);
        answered.payload = look.signal.payload;
        answered.has_payload = look.signal.has_payload;
    }
    settle_endings(endings, now);
    return answered;
}

const char *state_name(const Answered &answered) {
    return answered.held ? core::wait_answer_name(answered.answer) : "lost";
}

TimestampTz checked_until(FunctionCallInfo fcinfo, int delay, int until, TimestampTz now) {
    if (given(fcinfo, delay) == given(fcinfo, until))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("one of the arguments \"delay\" and \"until\" must be given"),
                        errhint("delay is from now on, until a point in time.")));
    if (given(fcinfo, until)) return core::bounded_moment(check_finite(PG_GETARG_TIMESTAMPTZ(until), "until"));
    return core::bounded_moment(
        core::saturating_add(now, check_span(PG_GETARG_INTERVAL_P(delay), "delay", Zero::Allowed)));
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_sleep);
PGDLLEXPORT Datum jobq_sleep(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    const TimestampTz now = GetCurrentTimestamp();
    Awaited awaited = {step_name_argument(fcinfo, 2, "name"), core::StepKind::Sleep, nullptr, {}};
    awaited.deadline = checked_until(fcinfo, 3, 4, now);
    const QueueScope *scope = scope_of(fcinfo);
    const Answered answered = with_owner_spi([&] { return wait_for(held_argument(fcinfo), scope, awaited, now); });
    PG_RETURN_TEXT_P(cstring_to_text(state_name(answered)));
}

PG_FUNCTION_INFO_V1(jobq_await);
PGDLLEXPORT Datum jobq_await(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    const TimestampTz now = GetCurrentTimestamp();
    Awaited awaited = {nullptr, core::StepKind::Event, event_argument(fcinfo, 2), {}};
    if (given(fcinfo, 3))
        awaited.deadline = core::bounded_moment(
            core::saturating_add(now, check_span(PG_GETARG_INTERVAL_P(3), "timeout", Zero::Allowed)));
    awaited.name = given(fcinfo, 4) ? step_name_argument(fcinfo, 4, "name") : awaited.event;
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        const Answered answered = wait_for(held_argument(fcinfo), scope, awaited, now);
        const Datum values[2] = {CStringGetTextDatum(state_name(answered)), answered.payload};
        const bool nulls[2] = {false, !answered.has_payload};
        results.row(values, nulls);
    });
    return results.done();
}

}  // extern "C"

}  // namespace jobq
