// The SQL functions jobq_sleep, jobq_await, and jobq_await_jobs. A job that waits does not occupy a worker. The first
// call saves the deadline. The promoter unblocks the job, but only a later call, under the job's lease, decides the
// outcome of the wait.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "core/clock.h"
#include "edges/awaits.h"
#include "finish/ending.h"
#include "groups/deadlock.h"
#include "identity/identity.h"
#include "job/change_job.h"
#include "log/rows.h"
#include "log/transaction_log.h"
#include "queues/scope.h"
#include "row/owner.h"
#include "steps/signals.h"
#include "steps/steps.h"
#include "workflows/step_arguments.h"

#include <algorithm>

namespace jobq {

namespace {

// What a call to jobq_sleep, jobq_await, or jobq_await_jobs waits for.
struct Awaited {
    StepUse use;
    core::OptInt64 deadline;  // used by the first call, which saves it
    const QueueScope *scope;
};

// What a call to jobq_sleep, jobq_await, or jobq_await_jobs returns.
struct Answered {
    bool held;
    core::WaitAnswer answer;
    Datum payload;  // jsonb
    bool has_payload;
};

// What one check of the wait has found.
struct Look {
    SavedStep saved;
    core::OptInt64 deadline;
    bool come;
    Datum result;  // jsonb: the payload or the results
    bool has_result;
    core::WaitAnswer answer;
    bool decided;  // by an earlier call
    int64 number;
    text *awaited;     // see the column _awaited of jobq.steps; nullptr for a sleep
    Datum jobs;        // bigint[]: the awaited jobs that exist
    int64 unfinished;  // the highest id of the awaited jobs that have not ended
    bool blocked;      // one of the awaited jobs is blocked
};

void look_at_signal(const JobsTable &jobs, const JobState &before, text *event, Look *look) {
    const Signal signal = find_signal(before.id, make_text(before.queue), event, jobs.table.snapshot);
    look->come = signal.there;
    look->result = signal.payload;
    look->has_result = signal.has_payload;
    look->awaited = make_text(before.queue);
}

Awaiter awaiter_of(const JobsTable &jobs, const JobState &before, const QueueScope *scope) {
    bool none;
    const Datum group_key = job_value(jobs, kJobGroupKey, &none);
    return {before.id, make_text(before.queue), none ? nullptr : DatumGetTextPP(group_key), scope};
}

// Checks which of the awaited jobs have ended. Returns the id of an awaited job that has not ended and is in the same
// group as the waiting job, or 0 if there is no such job.
int64 look_at_awaited_jobs(const JobsTable &jobs, const Awaiter &awaiter, const StepUse &use, Look *look) {
    const Rows rows = read_awaited_jobs(awaiter, PointerGetDatum(use.jobs), jobs.table.snapshot);
    const int count = static_cast<int>(rows.size());
    ArrayColumn there(count);
    int ended = 0;
    int64 of_own_group = 0;
    look->unfinished = 0;
    for (int i = 0; i < count; i++) {
        const Row row = rows[i];
        const bool gone = row.is_null(2);
        if (!gone) there.add(row.get(1));
        if (gone || core::is_finished(status_at(row, 2))) {
            ended++;
            continue;
        }
        look->blocked |= status_at(row, 2) == core::JobStatus::Blocked;
        look->unfinished = Max(look->unfinished, row.int64_at(1));
        if (!row.is_null(3) && row.bool_at(3)) of_own_group = row.int64_at(1);
    }
    look->come = core::jobs_have_ended(use.kind, ended, count);
    look->jobs = there.array(INT8OID);
    look->awaited = make_text("");
    return of_own_group;
}

[[noreturn]] void never_ends(int64 job, const char *why) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("argument \"ids\" must not contain job %lld", static_cast<long long>(job)), errdetail("%s", why)));
    pg_unreachable();
}

// Returns whether all ids are the same.
bool names_one_job(const ArrayType *ids) {
    const int count = ArrayGetNItems(ARR_NDIM(ids), ARR_DIMS(ids));
    const auto *first = reinterpret_cast<const int64 *>(ARR_DATA_PTR(ids));
    return count > 0 && std::all_of(first, first + count, [first](int64 id) { return id == *first; });
}

// Raises an error if the wait would be part of a deadlock (groups/deadlock.h). Only a wait that has no timeout and
// awaits all of the jobs can be part of a deadlock.
void refuse_deadlock(const JobsTable &jobs, int64 job, const StepUse &use, const Look &look) {
    if (!look.blocked || look.deadline || (use.kind == core::StepKind::Any && !names_one_job(use.jobs))) return;
    const int64 waiting = find_one_waiting_for(job, PointerGetDatum(use.jobs), jobs.table.snapshot);
    if (waiting != 0)
        never_ends(waiting,
                   "That job waits for the calling job, directly or through other jobs, so the wait would never end.");
}

Look look_at(const JobsTable &jobs, const JobState &before, const Awaited &awaited, TimestampTz now) {
    const StepUse &use = awaited.use;
    Look look = {};
    if (before.life.steps) look.saved = find_step(jobs, before.id, use);
    look.decided = look.saved.found && look.saved.state != core::StepState::Waiting;
    if (look.decided) {
        look.answer = core::decided_wait(look.saved.state);
        return look;
    }
    look.deadline = look.saved.found ? look.saved.until : awaited.deadline;
    const Awaiter awaiter = awaiter_of(jobs, before, awaited.scope);
    int64 of_own_group = 0;
    if (use.kind == core::StepKind::Event) look_at_signal(jobs, before, use.event, &look);
    if (core::awaits_jobs(use.kind)) of_own_group = look_at_awaited_jobs(jobs, awaiter, use, &look);
    const core::Wait wait = {look.come, before.life.cancel_requested_at.has_value(), use.kind == core::StepKind::Sleep,
                             look.deadline};
    look.answer = core::decide_wait(wait, now);
    look.number = look.saved.found ? *before.life.steps : 0;
    if (look.answer == core::WaitAnswer::Waiting && of_own_group != 0)
        never_ends(of_own_group, "That job comes after the calling job in its group, so the wait would never end.");
    if (look.answer == core::WaitAnswer::Waiting && core::awaits_jobs(use.kind))
        refuse_deadlock(jobs, before.id, use, look);
    look.has_result |= core::awaits_jobs(use.kind) &&
                       (look.answer == core::WaitAnswer::Ready || look.answer == core::WaitAnswer::Timeout);
    if (core::awaits_jobs(use.kind) && look.has_result)
        look.result = read_results(awaiter, PointerGetDatum(use.jobs), jobs.table.snapshot);
    return look;
}

// Writes the result of the check into the job's row. Returns false if the row has changed and the caller must check
// again.
bool write_look(JobsTable *jobs, const JobState &before, const Awaited &awaited, Look *look, TimestampTz now,
                Endings *endings) {
    if (look->decided || look->answer == core::WaitAnswer::Cancelled) return true;
    if (!look->saved.found) look->number = next_step(before);
    const bool waits = look->answer == core::WaitAnswer::Waiting;
    core::Event event = {waits ? core::EventKind::Waited : core::EventKind::StepSaved, now};
    event.last_step = look->number;
    event.sleeps = awaited.use.kind == core::StepKind::Sleep;
    event.deadline = look->deadline;
    if (event.sleeps) event.run_at = look->deadline.value_or(now);
    const core::Life after = core::after_event(before.life, event);
    return waits ? end_attempt(jobs, before, after, {AttemptOutcome::Snoozed, nullptr, true}, now, endings)
                 : write_life(jobs, before, after);
}

// Writes the result of the check into jobq.steps. No other session writes the steps of this job until the transaction
// ends, because this transaction has changed the job's row.
void save_look(int64 job, const Awaited &awaited, const Look &look) {
    const bool waits = look.answer == core::WaitAnswer::Waiting;
    const core::StepState state = waits                                      ? core::StepState::Waiting
                                  : look.answer == core::WaitAnswer::Timeout ? core::StepState::Timeout
                                                                             : core::StepState::Done;
    text *name = awaited.use.name;
    if (!look.saved.found)
        add_step({.job = job,
                  .number = look.number,
                  .use = awaited.use,
                  .state = state,
                  .until = look.deadline,
                  .awaited = waits ? look.awaited : nullptr,
                  .result = look.result,
                  .has_result = look.has_result});
    else if (!waits)
        decide_step(job, name, state, look.has_result, look.result);
    else if (look.awaited != nullptr)
        arm_step(job, name, look.awaited);
    if (waits && core::awaits_jobs(awaited.use.kind))
        await_jobs(job, look.jobs, awaited.use.kind == core::StepKind::Any ? 0 : look.unfinished);
    else
        forget_waits(job);
    if (!waits || look.awaited == nullptr) return;
    disarm_other_steps(job, name);
    // Requests another check of the job, because the wait might have ended since the last check.
    log_unblocked(Blocker::Edge, -job);
}

// Checks whether the wait is over, and saves its outcome or makes the job wait. Call it inside with_spi().
Answered wait_for(HeldJob job, const Awaited &awaited, TimestampTz now) {
    Look look = {};
    Endings endings = {};
    change_held(&job, 1, awaited.scope, [&](JobsTable *jobs, const JobState &before, HeldJob *) {
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
        answered.payload = look.result;
        answered.has_payload = look.has_result;
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
                        errmsg("exactly one of the arguments \"delay\" and \"until\" must be given"),
                        errhint("\"delay\" is an interval from now, and \"until\" is a point in time.")));
    if (given(fcinfo, until)) return check_moment(PG_GETARG_TIMESTAMPTZ(until), "until");
    return core::bounded_moment(
        core::saturating_add(now, check_span(PG_GETARG_INTERVAL_P(delay), "delay", Zero::Allowed)));
}

core::OptInt64 deadline_argument(FunctionCallInfo fcinfo, int timeout, TimestampTz now) {
    if (!given(fcinfo, timeout)) return {};
    return core::bounded_moment(
        core::saturating_add(now, check_span(PG_GETARG_INTERVAL_P(timeout), "timeout", Zero::Allowed)));
}

core::StepKind mode_argument(FunctionCallInfo fcinfo, int n) {
    const text *mode = require_text(fcinfo, n, "mode");
    core::StepKind kind = core::StepKind::All;
    if (core::parse_await_mode(view(mode), &kind)) return kind;
    const std::string_view choices[] = {step_kind_name(core::StepKind::All), step_kind_name(core::StepKind::Any)};
    refuse_choice("mode", view(mode), choices, lengthof(choices));
}

// Returns one row: the state of the wait, and the payload or the results for which the job has waited.
Datum answer(FunctionCallInfo fcinfo, const Awaited &awaited, TimestampTz now) {
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        const Answered answered = wait_for(held_argument(fcinfo, 1), awaited, now);
        const Datum values[2] = {CStringGetTextDatum(state_name(answered)), answered.payload};
        const bool nulls[2] = {false, !answered.has_payload};
        results.row(values, nulls);
    });
    return results.done();
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_sleep);
PGDLLEXPORT Datum jobq_sleep(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    const TimestampTz now = GetCurrentTimestamp();
    const StepUse use = {step_name_argument(fcinfo, 2, "name"), core::StepKind::Sleep, nullptr, nullptr};
    const Awaited awaited = {use, checked_until(fcinfo, 3, 4, now), scope_of(fcinfo)};
    const Answered answered = with_owner_spi([&] { return wait_for(held_argument(fcinfo, 1), awaited, now); });
    PG_RETURN_TEXT_P(cstring_to_text(state_name(answered)));
}

PG_FUNCTION_INFO_V1(jobq_await);
PGDLLEXPORT Datum jobq_await(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    const TimestampTz now = GetCurrentTimestamp();
    StepUse use = {nullptr, core::StepKind::Event, event_argument(fcinfo, 2), nullptr};
    const core::OptInt64 deadline = deadline_argument(fcinfo, 3, now);
    use.name = given(fcinfo, 4) ? step_name_argument(fcinfo, 4, "name") : use.event;
    return answer(fcinfo, {use, deadline, scope_of(fcinfo)}, now);
}

PG_FUNCTION_INFO_V1(jobq_await_jobs);
PGDLLEXPORT Datum jobq_await_jobs(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    const int64 id = require_int64(fcinfo, 0, "job_id");
    const TimestampTz now = GetCurrentTimestamp();
    const Elements ids = require_elements(fcinfo, 2, INT8OID, "ids", core::kMaxBatch);
    StepUse use = {step_name_argument(fcinfo, 3, "name"), mode_argument(fcinfo, 4), nullptr,
                   DatumGetArrayTypeP(array_of(ids.values, ids.count, INT8OID))};
    for (int i = 0; i < ids.count; i++)
        if (DatumGetInt64(ids.values[i]) == id) never_ends(id, "A job cannot wait for itself.");
    if (use.kind == core::StepKind::Any && ids.count == 0)
        ereport(
            ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"ids\" must not be empty in mode 'any'"),
             errhint(
                 "Pass at least one job. In mode 'all', a call with an empty array returns \"ready\" immediately.")));
    const core::OptInt64 deadline = deadline_argument(fcinfo, 5, now);
    return answer(fcinfo, {use, deadline, scope_of(fcinfo)}, now);
}

}  // extern "C"

}  // namespace jobq
