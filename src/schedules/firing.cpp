// See firing.h.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/settings.h"
#include "compat/transaction_fate.h"
#include "core/search_start.h"
#include "enqueue/enqueue_specs.h"
#include "enqueue/specs.h"
#include "identity/identity.h"
#include "lanes/empty_ranges.h"
#include "log/transaction_log.h"
#include "row/jobs_table.h"
#include "schedules/firing.h"
#include "schedules/overlap.h"
#include "shmem/memory.h"

namespace jobq {

namespace {

// Maximum number of schedules per transaction, and number of enqueued jobs after which a transaction fires no more
// schedules.
constexpr int kBatch = 500;
// Lock timeout of the duty that fires schedules, which applies when the duty waits for a job or a unique key. A
// schedule that fails is retried later. After kPatience lock timeouts in a batch, the timeout drops to
// kShortLockTimeout, because the remaining schedules and the other duties have to wait for the batch.
constexpr const char *kLockTimeout = "50ms";
constexpr int kPatience = 10;
constexpr const char *kShortLockTimeout = "1ms";

Statement lock_due = {"SELECT " SCHEDULE_COLUMNS R"( FROM jobq.schedule_settings s
       WHERE s._due_at <= $1 AND s._due_at >= $3 ORDER BY s._due_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)",
                      {TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID}};

Statement advance = {
    R"(UPDATE jobq.schedule_settings s
       SET next_run = u.next_run, _due_at = u.next_run, last_run = coalesce(u.last_run, s.last_run),
           last_job = coalesce(u.last_job, s.last_job), skipped = s.skipped + u.skipped,
           last_skipped = coalesce(u.last_skipped, s.last_skipped), skip_reason = coalesce(u.skip_reason, s.skip_reason),
           error = NULL, failures = 0, _unfinished = u.unfinished::bigint[]
       FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
            AS u(name, next_run, last_run, last_job, skipped, last_skipped, skip_reason, unfinished)
       WHERE s.name = u.name)",
    {TEXTARRAYOID, TIMESTAMPTZARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID,
     TEXTARRAYOID, TEXTARRAYOID}};

// Records a manual run, which does not change the next run. If the recorded last run is in the future because the clock
// was set back, the last run stays the same.
Statement note_run = {
    R"(UPDATE jobq.schedule_settings s
       SET last_run = $2, last_job = coalesce($3, s.last_job), _unfinished = $4::bigint[] WHERE s.name = $1)",
    {TEXTOID, TIMESTAMPTZOID, INT8OID, TEXTOID}};

Statement note_failure = {
    R"(UPDATE jobq.schedule_settings s
       SET error = $2, failures = $3, _due_at = $4 WHERE s.name = $1)",
    {TEXTOID, TEXTOID, INT4OID, TIMESTAMPTZOID}};

Statement get_first_due = {
    "SELECT s._due_at FROM jobq.schedule_settings s WHERE s._due_at >= $1 ORDER BY s._due_at LIMIT 1",
    {TIMESTAMPTZOID}};

Statement find_failing = {
    "SELECT 1 FROM jobq.schedule_settings s WHERE s.error IS NOT NULL LIMIT 1", {}, Planning::Free};

// Reads a page of schedules. Does not lock the rows, because few of them need a change.
Statement read_page = {"SELECT " SCHEDULE_COLUMNS R"( FROM jobq.schedule_settings s
       WHERE s.name > $1 AND s.next_run > $2 ORDER BY s.name LIMIT $3)",
                       {TEXTOID, TIMESTAMPTZOID, INT8OID}};
Statement renew = {
    R"(UPDATE jobq.schedule_settings s SET next_run = $3, _due_at = $3
       WHERE s.name = $1 AND s.next_run = $2 AND s.cron = $4 AND s.timezone = $5)",
    {TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID, TEXTOID}};

// Records the new due time of a schedule in the transaction log. The background worker is not notified, because the
// duty that fires schedules searches for due schedules anyway.
void note_place(TimestampTz due) { log_key(core::KeySpace::Schedules, core::schedule_key(due)); }

// The result of firing one schedule.
struct Firing {
    Schedule schedule;
    bool planned = false;  // false if the schedule must wait for the next batch
    TimestampTz next = 0;
    core::OptInt64 last_run = {}, last_job = {};
    int first_job = 0, job_count = 0;  // position of its jobs in the batch, and their number
    int64 skipped = 0;
    core::OptInt64 last_skipped = {};
    const char *skip_reason = nullptr;  // nullptr if no run was skipped
    JobIds unfinished = {};             // jobs that the new job waits for, with overlap "replace"
};

// Sets lock_timeout until the end of fire_due().
void wait_at_most(const char *time) {
    set_config_option("lock_timeout", time, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

void skip(Firing *firing, int64 count, TimestampTz last, const char *reason) {
    firing->skipped += count;
    firing->last_skipped = last;
    firing->skip_reason = reason;
}

TimestampTz next_from(const Schedule &schedule, const core::Timing &timing, TimestampTz now) {
    return next_run_from(timing, schedule.last_run, now).value_or(core::kNoMoment);
}

// Returns the first run that is due. In an adopted copy of a database, runs from before the adoption do not count. If a
// schedule was inserted without a next run, its runs are computed starting from `now`.
TimestampTz first_due(const Schedule &schedule, const core::Timing &timing, TimestampTz now) {
    const TimestampTz adopted = adopted_at();
    if (!schedule.next_run) return next_from(schedule, timing, now);
    if (*schedule.next_run > adopted || adopted > GetCurrentTimestamp()) return *schedule.next_run;
    return core::run_after(timing, adopted);
}

// Applies the overlap setting to a run. Returns false if the run must be skipped; otherwise sets firing->unfinished to
// the jobs that the new job must wait for.
bool passes_overlap(Firing *firing, TimestampTz now) {
    switch (overlap_of(firing->schedule.spec)) {
        case core::Overlap::Allow:
            break;
        case core::Overlap::Skip:
            return !last_job_unfinished(firing->schedule, now);
        case core::Overlap::Replace:
            firing->unfinished = cancel_unfinished(firing->schedule, now);
            break;
    }
    return true;
}

void add_job(Firing *firing, TimestampTz run, Notes<JobSpec> *jobs) {
    JobSpec job = job_of_run(firing->schedule.spec, run, nullptr);
    if (firing->unfinished.count > 0) {
        take_dependencies(&job, firing->unfinished.items, firing->unfinished.count);
        job.on_dependency_failure = core::OnDependencyFailure::Run;
        // Lets the new job take the unique key from a running job that was asked to stop. Otherwise, the new job would
        // not be enqueued, and no job would remain after the running job has stopped.
        if (one_has_key(firing->unfinished, job)) job.on_conflict = core::OnConflict::Replace;
    }
    if (firing->job_count++ == 0) firing->first_job = jobs->count;
    jobs->add(job);
}

void plan(Firing *firing, TimestampTz now, Notes<JobSpec> *jobs) {
    const ScheduleSpec &spec = firing->schedule.spec;
    const core::Timing timing = timing_of(spec, firing->schedule.created_at);
    firing->planned = true;
    firing->next = first_due(firing->schedule, timing, now);
    if (firing->next > now) return;
    const core::FiringRules rules = {missed_of(spec), overlap_of(spec) == core::Overlap::Allow ? spec.max_missed : 1,
                                     spec.deadline == nullptr ? core::kNoMoment : span_of(spec.deadline)};
    auto *runs = allocate_array<core::Micros>(core::kMaxMissed);
    const core::DueRuns due = core::due_runs(timing, rules, firing->next, now, runs);
    firing->next = due.next;
    if (due.left > 0) skip(firing, due.left, due.last_left, due.too_late ? "deadline" : "missed");
    if (due.count > 0 && !passes_overlap(firing, now)) {
        skip(firing, due.count, runs[due.count - 1], "overlap");
    } else if (due.count > 0) {
        for (int i = 0; i < due.count; i++) add_job(firing, runs[i], jobs);
        firing->last_run = runs[due.count - 1];
    }
    pfree(runs);
}

// Records the ids of the jobs that were enqueued for a schedule. A run has no new job if its unique key is held by
// another job.
void take_jobs(Firing *firing, const Enqueued *enqueued) {
    for (int i = 0; i < firing->job_count; i++) {
        const Enqueued &job = enqueued[firing->first_job + i];
        if (job.is_new) firing->last_job = job.id;
    }
}

// Returns the ids as the text of an array, or nullptr for an empty list.
char *unfinished_text(const JobIds &ids) {
    if (ids.count == 0) return nullptr;
    Oid output;
    bool is_varlena;
    getTypeOutputInfo(INT8ARRAYOID, &output, &is_varlena);
    return OidOutputFunctionCall(output, array_of(ids.items, ids.count, INT8OID));
}

void write_firings(const Firing *firings, int count) {
    ArrayColumn names(count), next(count), last_runs(count), last_jobs(count), skipped(count), last_skipped(count),
        reasons(count), unfinished(count);
    for (const Firing *firing = firings; firing < firings + count; firing++) {
        if (!firing->planned) continue;
        names.add(PointerGetDatum(firing->schedule.spec.name));
        next.add_if(firing->next != core::kNoMoment, TimestampTzGetDatum(firing->next));
        if (firing->next != core::kNoMoment) note_place(firing->next);
        last_runs.add_if(firing->last_run.has_value(), TimestampTzGetDatum(firing->last_run.value_or(0)));
        last_jobs.add_if(firing->last_job.has_value(), Int64GetDatum(firing->last_job.value_or(0)));
        skipped.add(Int64GetDatum(firing->skipped));
        last_skipped.add_if(firing->last_skipped.has_value(), TimestampTzGetDatum(firing->last_skipped.value_or(0)));
        const char *reason = firing->skip_reason;
        reasons.add_if(reason != nullptr, reason == nullptr ? Datum(0) : CStringGetTextDatum(reason));
        const char *ids = unfinished_text(firing->unfinished);
        unfinished.add_if(ids != nullptr, ids == nullptr ? Datum(0) : CStringGetTextDatum(ids));
    }
    if (names.count == 0) return;
    run(advance, Params()
                     .add(names.array(TEXTOID))
                     .add(next.array(TIMESTAMPTZOID))
                     .add(last_runs.array(TIMESTAMPTZOID))
                     .add(last_jobs.array(INT8OID))
                     .add(skipped.array(INT8OID))
                     .add(last_skipped.array(TIMESTAMPTZOID))
                     .add(reasons.array(TEXTOID))
                     .add(unfinished.array(TEXTOID)));
}

// Fires some schedules of a batch. *jobs_so_far is the number of jobs that the batch has already enqueued; this
// function adds the number of jobs that it enqueues.
void fire(Firing *firings, int count, TimestampTz now, int *jobs_so_far) {
    Notes<JobSpec> jobs = {};
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        firings[i] = {firings[i].schedule};
        if (*jobs_so_far + jobs.count < kBatch) plan(&firings[i], now, &jobs);
    }
    if (jobs.count > 0) {
        int number;
        const Enqueued *enqueued = enqueue_specs(jobs.items, jobs.count, nullptr, now, &number);
        for (int i = 0; i < count; i++) take_jobs(&firings[i], enqueued);
    }
    write_firings(firings, count);
    *jobs_so_far += jobs.count;
}

TimestampTz due_of(const Rows &rows) { return rows.size() == 0 ? DT_NOEND : DatumGetTimestampTz(rows[0].get(1)); }

// Returns the time at which the first schedule is due, or DT_NOEND if there is none. Publishes all earlier times as an
// empty range of the index (lanes/empty_ranges.h), so that the next search skips them. Without this range, each search
// would read the dead index entries that every run leaves behind and that cannot be removed while an old snapshot
// exists.
TimestampTz first_due_schedule() {
    constexpr core::KeySpace space = core::KeySpace::Schedules;
    // Without shared memory, the transaction log does not show whether this transaction has changed schedules, so
    // nothing is published.
    if (!shared_memory_ready() || IsolationUsesXactSnapshot() || has_unpublished_keys(space))
        return due_of(run(get_first_due, Params().add(TimestampTzGetDatum(DT_NOBEGIN))));
    // Changes that were made while the trigger on jobq.schedule_settings was disabled are not published, so from time
    // to time the search starts at the beginning of the index.
    static core::SearchStart start(500);
    const bool whole = start.begin(true, GetCurrentTimestamp()) == DT_NOBEGIN;
    const uint64 epoch = trigger_epoch();
    const uint64 ticket = begin_refresh(epoch, space, 0);
    const core::ClaimKey from = whole ? core::kFirstKey : first_possible_key(epoch, space);
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    // The snapshot must not see the changes that this transaction has made, because the transaction might roll back.
    latest->curcid = FirstCommandId;
    const TimestampTz first = due_of(read(get_first_due, Params().add(TimestampTzGetDatum(from.run_at)), latest));
    UnregisterSnapshot(latest);
    core::EmptyRanges empty = {};
    core::add_empty(&empty, {from, first == DT_NOEND ? core::kLastKey : core::schedule_key(first)}, 1);
    finish_refresh(space, ticket, empty);
    start.end(DT_NOEND, GetCurrentTimestamp());
    return first;
}

void leave_out(const Schedule &schedule, const FailureText &failure, TimestampTz now, DutyOutcome *outcome) {
    const int failures = schedule.failures < PG_INT32_MAX ? schedule.failures + 1 : schedule.failures;
    // The batch might have waited a long time for locks after `now` was set. The backoff starts from the current time
    // instead, so that the next batch begins with other schedules.
    const TimestampTz tried = Max(now, GetCurrentTimestamp());
    note_place(tried + core::firing_backoff(failures));
    run(note_failure, Params()
                          .add(PointerGetDatum(schedule.spec.name))
                          .add(CStringGetTextDatum(failure.message))
                          .add(Int32GetDatum(failures))
                          .add(TimestampTzGetDatum(tried + core::firing_backoff(failures))));
    if (outcome->failed++ > 0) return;
    const std::string_view name = view(schedule.spec.name);
    snprintf(outcome->error, sizeof(outcome->error), "schedule \"%.*s\": %s",
             pg_mbcliplen(name.data(), static_cast<int>(name.size()), 30), name.data(), failure.message);
}

void fire_batch(TimestampTz now, DutyOutcome *outcome) {
    const TimestampTz first_due = first_due_schedule();
    if (first_due > now) return;
    const Rows due =
        run(lock_due,
            Params().add(TimestampTzGetDatum(now)).add(Int64GetDatum(kBatch)).add(TimestampTzGetDatum(first_due)));
    const int count = static_cast<int>(due.size());
    auto *firings = allocate_array<Firing>(due.size());
    for (int i = 0; i < count; i++) firings[i].schedule = schedule_of(due[static_cast<uint64>(i)]);
    int jobs = 0;
    int waits = 0;
    bool postponed = false;
    change_all_or_each(
        count, [&](int first, int n) { fire(firings + first, n, now, &jobs); },
        [&](int i) {
            postponed |= !firings[i].planned;
            outcome->done += firings[i].planned ? 1 : 0;
        },
        [&](int i, const FailureText &failure) {
            leave_out(firings[i].schedule, failure, now, outcome);
            if (failure.sqlstate == ERRCODE_LOCK_NOT_AVAILABLE && ++waits == kPatience) wait_at_most(kShortLockTimeout);
        });
    // Requests another batch if more schedules might be due. The requests end at some point, because each schedule that
    // was handled has a later next run or waits for its next attempt.
    outcome->more = postponed || count == kBatch;
}

// The progress of this session in recomputing the next runs of all schedules.
struct Renewal {
    TimestampTz grace_start;
    bool done;
    char behind[kMaxScheduleNameBytes + 1];
};
constexpr Renewal kNothingToRenew = {DT_NOBEGIN, true, ""};
Renewal renewed = kNothingToRenew;
// The progress that takes effect when the transaction `renewed_by` has committed. This transaction might still be in
// progress.
Renewal renewal = kNothingToRenew;
TransactionId renewed_by = InvalidTransactionId;

// Copies `renewal` to `renewed` if the transaction `renewed_by` has committed, or if renewed_by is invalid because
// nothing was changed. If the transaction has not committed, copies `renewed` back to `renewal`. Does nothing while the
// transaction is the current transaction.
void settle_renewal() {
    if (TransactionIdIsValid(renewed_by) && TransactionIdIsCurrentTransactionId(renewed_by)) return;
    if (TransactionIdIsValid(renewed_by) && fate_of(renewed_by) != Fate::Committed)
        renewal = renewed;
    else
        renewed = renewal;
    renewed_by = InvalidTransactionId;
}

// Recomputes the next runs of one page of schedules. A next run that cannot be computed stays as it is; the error is
// reported when the schedule is fired.
void renew_page(TimestampTz now, DutyOutcome *outcome) {
    Renewal next = renewal;
    wait_at_most(kLockTimeout);
    const Rows page =
        read(read_page,
             Params().add(CStringGetTextDatum(next.behind)).add(TimestampTzGetDatum(now)).add(Int64GetDatum(kBatch)));
    for (uint64 i = 0; i < page.size(); i++) {
        const Schedule schedule = schedule_of(page[i]);
        FailureText failure;
        const auto renew_one = [&] {
            const core::Timing timing = timing_of(schedule.spec, schedule.created_at);
            const TimestampTz due = next_from(schedule, timing, now);
            if (due == *schedule.next_run) return;
            if (due != core::kNoMoment) note_place(due);
            run(renew, Params()
                           .add(PointerGetDatum(schedule.spec.name))
                           .add(TimestampTzGetDatum(*schedule.next_run))
                           .add_if(due != core::kNoMoment, TimestampTzGetDatum(due))
                           .add(PointerGetDatum(schedule.spec.cron))
                           .add(PointerGetDatum(schedule.spec.timezone)));
            outcome->done += affected();
        };
        attempt(renew_one, &failure);
        text_to_cstring_buffer(schedule.spec.name, next.behind, sizeof(next.behind));
    }
    next.done = page.size() < static_cast<uint64>(kBatch);
    renewal = next;
    // If this page has no changes, renewed_by keeps its value, because the progress depends on earlier pages of the
    // same transaction.
    if (TransactionIdIsValid(GetCurrentTransactionIdIfAny())) renewed_by = GetCurrentTransactionIdIfAny();
    if (!renewal.done) outcome->more = true;
}

}  // namespace

DutyOutcome fire_due(TimestampTz now, TimestampTz grace_start) {
    DutyOutcome outcome = {};
    if (!settings.schedules) return outcome;
    const int nest_level = NewGUCNestLevel();
    wait_at_most(kLockTimeout);
    fire_batch(now, &outcome);
    settle_renewal();
    if (renewal.grace_start != grace_start) renewal = {grace_start, false, ""};
    if (!renewal.done && !outcome.more) renew_page(now, &outcome);
    AtEOXact_GUC(true, nest_level);
    return outcome;
}

bool any_schedule_fails() { return run(find_failing, Params()).size() > 0; }

TimestampTz next_schedule_due() {
    if (!settings.schedules) return DT_NOEND;
    return first_due_schedule();
}

core::OptInt64 fire_now(const Schedule &schedule, TimestampTz now) {
    Firing firing = {};
    firing.schedule = schedule;
    if (!passes_overlap(&firing, now)) return {};
    Notes<JobSpec> jobs = {};
    add_job(&firing, now, &jobs);
    int number;
    const Enqueued *enqueued = enqueue_specs(jobs.items, jobs.count, nullptr, now, &number);
    take_jobs(&firing, enqueued);
    const char *ids = unfinished_text(firing.unfinished);
    run(note_run, Params()
                      .add(PointerGetDatum(schedule.spec.name))
                      .add(TimestampTzGetDatum(core::resume_after(now, schedule.last_run.value_or(now))))
                      .add_if(firing.last_job.has_value(), Int64GetDatum(firing.last_job.value_or(0)))
                      .add_if(ids != nullptr, ids == nullptr ? Datum(0) : CStringGetTextDatum(ids)));
    return enqueued[0].id;
}

}  // namespace jobq
