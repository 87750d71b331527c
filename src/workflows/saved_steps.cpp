// The SQL functions jobq_step, jobq_step_done, and jobq_steps. They save the results of a job's steps, so that each
// step runs only once even if the job is claimed several times.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "identity/identity.h"
#include "job/change_job.h"
#include "queues/scope.h"
#include "row/owner.h"
#include "steps/steps.h"
#include "workflows/step_arguments.h"

namespace jobq {

namespace {

void answer(ResultSet *results, const char *state, bool has_result, Datum result) {
    const Datum values[2] = {CStringGetTextDatum(state), result};
    const bool nulls[2] = {false, !has_result};
    results->row(values, nulls);
}

// If the worker holds the job, opens the table, reads the job's row, and calls look(). Returns whether the worker holds
// the job.
template <typename Look>
bool look_at_held(const HeldJob &job, const QueueScope *scope, Look look) {
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    const bool held = find_job(&jobs, job.id) && runs_under(jobs, job.lease) && is_in_scope(scope, jobs);
    if (held) look(jobs);
    close_jobs(&jobs);
    return held;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_step);
PGDLLEXPORT Datum jobq_step(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    text *name = step_name_argument(fcinfo, 2, "name");
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        const HeldJob job = held_argument(fcinfo, 1);
        const bool held = look_at_held(job, scope, [&](const JobsTable &jobs) {
            const core::Life life = state_of(jobs).life;
            SavedStep saved = {};
            if (life.steps) saved = find_step(jobs, job.id, {name, core::StepKind::Step, nullptr, nullptr});
            if (saved.found)
                answer(&results, "done", saved.has_result, saved.result);
            else
                answer(&results, life.cancel_requested_at ? "cancel" : "run", false, Datum(0));
        });
        if (!held) answer(&results, "lost", false, Datum(0));
    });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_step_done);
PGDLLEXPORT Datum jobq_step_done(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    require(fcinfo, 0, "job_id");
    NewStep step = {};
    step.use = {step_name_argument(fcinfo, 2, "name"), core::StepKind::Step, nullptr, nullptr};
    step.has_result = given(fcinfo, 3);
    if (step.has_result) step.result = PG_GETARG_DATUM(3);
    if (step.has_result) check_step_size(step.result, "result");
    require(fcinfo, 4, "must_hold");
    const bool must_hold = PG_GETARG_BOOL(4);
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        HeldJob job = held_argument(fcinfo, 1);
        const SavedStep saved = save_under_lease(&job, scope, step.use, &step.number);
        if (!job.held && must_hold) lease_is_lost(job.id);
        if (!job.held) {
            answer(&results, "lost", false, Datum(0));
        } else if (saved.found) {
            answer(&results, "kept", saved.has_result, saved.result);
        } else {
            step.job = job.id;
            add_step(step);
            answer(&results, "saved", step.has_result, step.result);
        }
    });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_steps);
PGDLLEXPORT Datum jobq_steps(PG_FUNCTION_ARGS) {
    require_worker_may(fcinfo);
    const Elements ids = require_elements(fcinfo, 0, INT8OID, "job_ids", core::kMaxBatch);
    const Elements leases = require_elements(fcinfo, 1, INT8OID, "leases", core::kMaxBatch);
    check_same_length(ids.count, "job_ids", leases.count, "leases");
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        ArrayColumn with_steps(ids.count);
        for (int i = 0; i < ids.count; i++) {
            HeldJob job = {};
            job.id = DatumGetInt64(ids.values[i]);
            job.lease = DatumGetInt64(leases.values[i]);
            const bool held = look_at_held(job, scope, [&](const JobsTable &jobs) {
                if (state_of(jobs).life.steps) with_steps.add(ids.values[i]);
            });
            if (held) continue;
            const Datum values[4] = {ids.values[i], Datum(0), CStringGetTextDatum("lost"), Datum(0)};
            const bool nulls[4] = {false, true, false, true};
            results.row(values, nulls);
        }
        if (with_steps.count > 0) results.rows(read_steps(with_steps.array(INT8OID)));
    });
    return results.done();
}

}  // extern "C"

}  // namespace jobq
