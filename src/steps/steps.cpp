// See steps.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "steps/signals.h"
#include "steps/steps.h"
#include "table/table_in_use.h"

namespace jobq {

namespace {

Statement find = {
    R"(SELECT s.kind, s.event, s.state, s.until, s.result, s.jobs FROM jobq.steps s
       WHERE s.job_id = $1 AND s.name = $2 COLLATE "C")",
    {INT8OID, TEXTOID}};

Statement add = {
    R"(INSERT INTO jobq.steps (job_id, number, name, kind, state, until, event, _awaited, result, jobs)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE $4 WHEN 'spawn' THEN to_jsonb($10) ELSE $9 END, $10))",
    {INT8OID, INT8OID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, JSONBOID, INT8ARRAYOID}};

Statement decide = {
    R"(UPDATE jobq.steps s SET state = $3, result = $4, _awaited = NULL WHERE s.job_id = $1 AND s.name = $2 COLLATE "C")",
    {INT8OID, TEXTOID, TEXTOID, JSONBOID}};

Statement arm = {
    R"(UPDATE jobq.steps s SET _awaited = $3 WHERE s.job_id = $1 AND s.name = $2 COLLATE "C" AND s._awaited IS DISTINCT FROM $3)",
    {INT8OID, TEXTOID, TEXTOID}};
Statement disarm = {
    R"(UPDATE jobq.steps s SET _awaited = NULL
       WHERE s.job_id = $1 AND s._awaited IS NOT NULL AND s.name <> $2 COLLATE "C")",
    {INT8OID, TEXTOID}};

Statement disarm_all = {"UPDATE jobq.steps s SET _awaited = NULL WHERE s.job_id = ANY ($1) AND s._awaited IS NOT NULL",
                        {INT8ARRAYOID}};

Statement read_of = {
    R"(SELECT s.job_id, s.name, s.state, s.result FROM jobq.steps s WHERE s.job_id = ANY ($1) ORDER BY s.job_id, s.number)",
    {INT8ARRAYOID}};

Statement find_number = {R"(SELECT s.number FROM jobq.steps s WHERE s.job_id = $1 AND s.name = $2 COLLATE "C")",
                         {INT8OID, TEXTOID}};
Statement delete_from = {"DELETE FROM jobq.steps s WHERE s.job_id = $1 AND s.number >= $2", {INT8OID, INT8OID}};
Statement find_last = {"SELECT coalesce(max(s.number), 0) FROM jobq.steps s WHERE s.job_id = $1", {INT8OID}};

#define ENDED_BEFORE "FROM jobq.steps s WHERE s.job_id = $1 AND s.number < $2 AND s.state <> 'waiting'"
Statement find_last_ended = {"SELECT max(s.number) " ENDED_BEFORE, {INT8OID, INT8OID}};
Statement copy_ended = {
    "INSERT INTO jobq.steps (job_id, number, name, kind, state, saved_at, until, event, result, jobs) "
    "SELECT $3, s.number, s.name, s.kind, s.state, s.saved_at, s.until, s.event, s.result, s.jobs " ENDED_BEFORE,
    {INT8OID, INT8OID, INT8OID}};

Statement delete_of = {"DELETE FROM jobq.steps s WHERE s.job_id = ANY ($1)", {INT8ARRAYOID}};
Statement delete_all = {"DELETE FROM jobq.steps", {}, Planning::Free};
Statement move = {"UPDATE jobq.steps s SET job_id = $2 WHERE s.job_id = $1", {INT8OID, INT8OID}};

Statement find_awaited = {
    R"(SELECT s.kind, s.event, cardinality(s.jobs) FROM jobq.steps s
       WHERE s.job_id = $1 AND s._awaited IS NOT NULL ORDER BY s.number)",
    {INT8OID}};

Statement find_events = {
    R"(SELECT array_agg(e.at), array_agg(e.event), array_agg(e.detail)
       FROM (SELECT s.saved_at AS at,
                    CASE s.kind WHEN 'step' THEN 'step done' WHEN 'spawn' THEN 'spawned' WHEN 'sleep' THEN 'sleep begun'
                                ELSE 'wait begun' END AS event,
                    s.name || CASE WHEN s.kind = 'spawn' THEN ': ' || cardinality(s.jobs) || ' jobs'
                                   WHEN s.state = 'done' THEN '' ELSE ': ' || s.state END AS detail
             FROM jobq.steps s WHERE s.job_id = $1
             UNION ALL
             SELECT g.sent_at, 'signal', g.event FROM jobq.job_signals g WHERE g.job_id = $1) e)",
    {INT8OID}};

ArrayType *jobs_at(const Row &row) { return row.is_null(6) ? nullptr : DatumGetArrayTypePCopy(row.get(6)); }

int count_of(const ArrayType *jobs) { return ArrayGetNItems(ARR_NDIM(jobs), ARR_DIMS(jobs)); }

// Returns a sentence for an error message. The sentence says what a name already stands for.
const char *described_use(const Row &row) {
    const char *kind = TextDatumGetCString(row.get(1));
    if (!row.is_null(2)) return psprintf("It names a wait for the event \"%s\".", TextDatumGetCString(row.get(2)));
    const ArrayType *jobs = jobs_at(row);
    if (jobs == nullptr) return psprintf("It names a step of kind \"%s\".", kind);
    if (strcmp(kind, core::step_kind_name(core::StepKind::Spawn)) == 0)
        return "It names the jobs that this job has spawned.";
    return psprintf(count_of(jobs) == 1 ? "It names a wait for %s of %d job." : "It names a wait for %s of %d jobs.",
                    kind, count_of(jobs));
}

[[noreturn]] void other_use(const StepUse &use, const Row &row) {
    ereport(
        ERROR,
        (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
         errmsg("the name \"%s\" is already used for another purpose in this job", text_to_cstring(use.name)),
         errdetail("%s", described_use(row)),
         errhint(
             "Choose another name, because the steps, spawned jobs, sleeps, and waits of a job share one namespace.")));
    pg_unreachable();
}

bool same_jobs(const ArrayType *a, const ArrayType *b) {
    const int count = count_of(a);
    return count == count_of(b) && !ARR_HASNULL(a) &&
           memcmp(ARR_DATA_PTR(a), ARR_DATA_PTR(b), sizeof(int64) * count) == 0;
}

bool is_use(const Row &row, const StepUse &use) {
    if (row.text_at(1) != core::step_kind_name(use.kind)) return false;
    // The row might have no list of jobs if it was written with plain SQL.
    const ArrayType *jobs = core::has_jobs(use.kind) ? jobs_at(row) : nullptr;
    if (core::has_jobs(use.kind) && jobs == nullptr) return false;
    if (core::awaits_jobs(use.kind)) return same_jobs(jobs, use.jobs);
    return row.is_null(2) ? use.event == nullptr : use.event != nullptr && row.text_at(2) == view(use.event);
}

}  // namespace

bool any_step() { return is_in_use("steps"); }

SavedStep find_step(const JobsTable &jobs, int64 job, const StepUse &use) {
    SavedStep step = {};
    const Rows rows = read(find, Params().add(Int64GetDatum(job)).add(PointerGetDatum(use.name)), jobs.table.snapshot);
    if (rows.size() == 0) return step;
    const Row row = rows[0];
    if (!is_use(row, use)) other_use(use, row);
    step.found = true;
    core::parse_step_state(row.text_at(3), &step.state);
    if (!row.is_null(4)) step.until = DatumGetTimestampTz(row.get(4));
    bool none;
    step.result = row.get(5, &none);
    step.has_result = !none;
    step.jobs = jobs_at(row);
    return step;
}

void add_step(const NewStep &step) {
    run(add, Params()
                 .add(Int64GetDatum(step.job))
                 .add(Int64GetDatum(step.number))
                 .add(PointerGetDatum(step.use.name))
                 .add(CStringGetTextDatum(core::step_kind_name(step.use.kind)))
                 .add(CStringGetTextDatum(core::step_state_name(step.state)))
                 .add_if(step.until.has_value(), TimestampTzGetDatum(step.until.value_or(0)))
                 .add_if(step.use.event != nullptr, PointerGetDatum(step.use.event))
                 .add_if(step.awaited != nullptr, PointerGetDatum(step.awaited))
                 .add_if(step.has_result, step.result)
                 .add_if(step.use.jobs != nullptr, PointerGetDatum(step.use.jobs)));
}

void arm_step(int64 job, text *name, text *awaited) {
    run(arm, Params().add(Int64GetDatum(job)).add(PointerGetDatum(name)).add(PointerGetDatum(awaited)));
}

void disarm_other_steps(int64 job, text *name) {
    run(disarm, Params().add(Int64GetDatum(job)).add(PointerGetDatum(name)));
}

void disarm_steps(Datum *ids, int count) {
    if (count > 0) run(disarm_all, Params().add(array_of(ids, count, INT8OID)));
}

void decide_step(int64 job, text *name, core::StepState state, bool has_result, Datum result) {
    run(decide, Params()
                    .add(Int64GetDatum(job))
                    .add(PointerGetDatum(name))
                    .add(CStringGetTextDatum(core::step_state_name(state)))
                    .add_if(has_result, result));
}

Rows read_steps(Datum jobs) { return run(read_of, Params().add(jobs)); }

int64 require_step(int64 job, text *name) {
    const Rows rows = run(find_number, Params().add(Int64GetDatum(job)).add(PointerGetDatum(name)));
    if (rows.size() == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("job %lld has no step \"%s\"", static_cast<long long>(job), text_to_cstring(name)),
                        errhint("Use jobq_log() to list the steps of the job.")));
    return rows[0].int64_at(1);
}

core::OptInt64 last_ended_step(int64 job, int64 end) {
    if (!any_step()) return {};
    const Rows rows = run(find_last_ended, Params().add(Int64GetDatum(job)).add(Int64GetDatum(end)));
    return rows[0].is_null(1) ? core::OptInt64() : core::OptInt64(rows[0].int64_at(1));
}

void copy_ended_steps(int64 from, int64 to, int64 end) {
    run(copy_ended, Params().add(Int64GetDatum(from)).add(Int64GetDatum(end)).add(Int64GetDatum(to)));
}

int64 drop_steps_from(int64 job, int64 number) {
    run(delete_from, Params().add(Int64GetDatum(job)).add(Int64GetDatum(number)));
    return run(find_last, Params().add(Int64GetDatum(job)))[0].int64_at(1);
}

void drop_all_steps_of(Datum *ids, int count) {
    if (count > 0 && any_step()) run(delete_of, Params().add(array_of(ids, count, INT8OID)));
}

void delete_steps(Datum *ids, int count) {
    drop_all_steps_of(ids, count);
    delete_job_signals(ids, count);
}

void delete_all_steps() {
    if (any_step()) run(delete_all, Params());
    delete_all_job_signals();
}

void move_steps(int64 from, int64 to) {
    if (any_step()) run(move, Params().add(Int64GetDatum(from)).add(Int64GetDatum(to)));
    move_job_signals(from, to);
}

Rows read_step_events(int64 job) {
    if (!any_step() && !is_in_use("job_signals")) return {nullptr, 0};
    return read(find_events, Params().add(Int64GetDatum(job)));
}

Rows read_awaited(int64 job) { return read(find_awaited, Params().add(Int64GetDatum(job))); }

}  // namespace jobq
