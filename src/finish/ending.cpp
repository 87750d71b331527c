// See ending.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "core/retry.h"
#include "edges/awaits.h"
#include "edges/edges.h"
#include "finish/batch_members.h"
#include "finish/dead_letters.h"
#include "finish/ending.h"
#include "finish/log_lines.h"
#include "log/rows.h"
#include "log/transaction_log.h"
#include "row/owner.h"
#include "steps/steps.h"

#include <algorithm>

extern "C" {
#include "common/pg_prng.h"
}

namespace jobq {

namespace {

// Inserts rows into jobq.attempts, except for jobs that no longer exist because a user-defined trigger has deleted
// them. Returns the number of attempts of existing jobs and the number of inserted rows.
Statement record_attempts = {
    R"(WITH there AS (
           SELECT u.* FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
                           AS u(job_id, lease, attempt, outcome, worker_id, started_at, error, reported, details)
           WHERE EXISTS (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.job_id]))),
       recorded AS (
           INSERT INTO jobq.attempts (job_id, lease, attempt, outcome, worker_id, started_at, finished_at, error, reported,
                                      details)
           SELECT t.job_id, t.lease, t.attempt, t.outcome, t.worker_id, t.started_at, $10, t.error, t.reported, t.details
           FROM there t
           RETURNING 1)
       SELECT (SELECT count(*) FROM there), (SELECT count(*) FROM recorded))",
    {INT8ARRAYOID, INT8ARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID, TEXTARRAYOID,
     BOOLARRAYOID, JSONBARRAYOID, TIMESTAMPTZOID}};

Statement delete_all_of = {
    "DELETE FROM jobq.jobs j WHERE j.id = ANY ($1) "
    "RETURNING j.queue, j.status::text, j.id, j._group_active, j.result, j.kind, j.batch_id",
    {INT8ARRAYOID}};
// Maximum number of jobs per DELETE, because the rows that DELETE returns are kept in memory.
constexpr int kDeletedAtOnce = 10000;

Statement move_attempts_of = {"UPDATE jobq.attempts a SET job_id = $2 WHERE a.job_id = $1", {INT8OID, INT8OID}};
Statement delete_attempts_of = {"DELETE FROM jobq.attempts a WHERE a.job_id = ANY ($1)", {INT8ARRAYOID}};
Statement delete_every_attempt = {"DELETE FROM jobq.attempts", {}, Planning::Free};

void record(const Notes<EndedAttempt> &attempts, TimestampTz now) {
    const int count = attempts.count;
    if (count == 0) return;
    ArrayColumn jobs(count), leases(count), numbers(count), outcomes(count), workers(count), started(count),
        errors(count), reported(count), details(count);
    bool any_details = false;
    for (int i = 0; i < count; i++) {
        const EndedAttempt &one = attempts.items[i];
        jobs.add(Int64GetDatum(one.job));
        leases.add(Int64GetDatum(one.lease));
        numbers.add(Int32GetDatum(one.attempt));
        outcomes.add(CStringGetTextDatum(outcome_name(one.outcome)));
        workers.add_if(one.worker_id != nullptr, PointerGetDatum(one.worker_id));
        started.add_if(one.started_at.has_value(), TimestampTzGetDatum(one.started_at.value_or(0)));
        errors.add_if(one.error != nullptr, PointerGetDatum(one.error));
        reported.add(BoolGetDatum(one.reported));
        details.add_if(one.details != Datum(0), one.details);
        any_details |= one.details != Datum(0);
    }
    const Rows counts = run(record_attempts, Params()
                                                 .add(jobs.array(INT8OID))
                                                 .add(leases.array(INT8OID))
                                                 .add(numbers.array(INT4OID))
                                                 .add(outcomes.array(TEXTOID))
                                                 .add(workers.array(TEXTOID))
                                                 .add(started.array(TIMESTAMPTZOID))
                                                 .add(errors.array(TEXTOID))
                                                 .add(reported.array(BOOLOID))
                                                 .add_if(any_details, any_details ? details.array(JSONBOID) : Datum(0))
                                                 .add(TimestampTzGetDatum(now)));
    require_changed(counts[0].int64_at(2), counts[0].int64_at(1));
}

bool is_empty(const Endings &endings) {
    return endings.attempts.count == 0 && endings.keys.count == 0 && endings.unkept.count == 0 &&
           endings.buried.count == 0 && endings.waited.count == 0;
}

// Counts the outcome of an attempt in the queue's counters. Changes of a job's status are counted elsewhere.
void count_event(std::string_view queue, AttemptOutcome outcome) {
    if (outcome == AttemptOutcome::Failed) count_event_at_commit(queue, core::CountedEvent::Failed, 1);
    if (outcome == AttemptOutcome::Lost) count_event_at_commit(queue, core::CountedEvent::Lost, 1);
}

// Deletes the edges that begin at deleted jobs. If other jobs still need the result of a deleted job, stores this
// result.
void forget_edges_of(const Rows &gone) {
    if (!any_edge()) return;
    for (uint64 i = 0; i < gone.size(); i++) {
        bool none;
        const Datum result = gone[i].get(5, &none);
        forget_edges(gone[i].int64_at(3), status_at(gone[i], 2) == core::JobStatus::Completed,
                     none ? nullptr : &result);
    }
}

// Adds the deleted jobs to the counts of their batches.
void count_members_of(const Rows &gone) {
    Notes<GoneMember> members = {};
    for (uint64 i = 0; i < gone.size(); i++)
        if (!gone[i].is_null(7)) members.add({gone[i].int64_at(7), status_at(gone[i], 2)});
    count_gone_members(members.items, members.count);
}

// Deletes jobs and their attempts, and returns rows (queue, status, id, group_active, result, kind, batch_id) of the
// deleted jobs.
Rows delete_rows(Datum *ids, int count) {
    delete_attempts(ids, count);
    const Rows gone = run(delete_all_of, Params().add(array_of(ids, count, INT8OID)));
    for (uint64 i = 0; i < gone.size(); i++)
        count_deleted_job(gone[i].text_at(1), gone[i].text_at(6), status_at(gone[i], 2));
    delete_steps(ids, count);
    forget_edges_of(gone);
    count_members_of(gone);
    return gone;
}

}  // namespace

core::Micros retry_delay(const core::QueueSettings &settings, int attempts) {
    return core::backoff({settings.backoff_base, settings.backoff_max, settings.backoff}, attempts,
                         pg_prng_uint32(&pg_global_prng_state));
}

bool halts_on_failure(const JobState &job) {
    return settings_for(*find_queue(job.queue), job.kind).group_on_failure == core::GroupOnFailure::Halt;
}

bool end_attempt(JobsTable *jobs, const JobState &before, const core::Life &after, const AttemptEnd &end,
                 TimestampTz now, Endings *endings) {
    OtherColumns others = {};
    if (end.error != nullptr) others.set(kJobError, PointerGetDatum(end.error));
    core::Life left = after;
    if (!write_life(jobs, before, after, others, &left)) return false;
    bool anonymous;
    const Datum worker_id = job_value(*jobs, kJobWorkerId, &anonymous);
    endings->attempts.add({.job = before.id,
                           .lease = before.life.lease.value_or(0),
                           .attempt = before.life.attempts,
                           .outcome = end.outcome,
                           .worker_id = anonymous ? nullptr : make_text(view(DatumGetTextPP(worker_id))),
                           .error = end.error,
                           .started_at = before.life.started_at,
                           .reported = end.reported,
                           .details = end.details});
    count_event(before.queue, end.outcome);
    note_end(*jobs, before, left, now, endings);
    return true;
}

void note_end(const JobsTable &jobs, const JobState &before, const core::Life &after, TimestampTz now,
              Endings *endings) {
    if (!core::is_finished(after.status) || core::is_finished(before.life.status)) return;
    if (keeps_key(jobs)) endings->keys.add(kept_key(jobs, now));
    const core::QueueSettings &settings = settings_for(*find_queue(before.queue), before.kind);
    const bool completed = after.status == core::JobStatus::Completed;
    // A job can end while one of its waits is still open. This is rare for a completed job, so a completed job is added
    // to `waited` only if it was waiting or if any job in the database awaits other jobs.
    if (after.steps && (!completed || core::awaits(before.life) || any_active(EdgeKind::Awaits)))
        endings->waited.add(Int64GetDatum(before.id));
    // The failed head of a halted group stays in its queue.
    if (core::halts_group(after)) return;
    if (after.status == core::JobStatus::Failed && !settings.dead_letter_queue.empty())
        endings->buried.add(Int64GetDatum(before.id));
    else if ((completed ? settings.keep_completed : settings.keep_failed) == 0)
        endings->unkept.add(Int64GetDatum(before.id));
}

void settle_endings(const Endings &endings, TimestampTz now) {
    record(endings.attempts, now);
    keep_keys(endings.keys.items, endings.keys.count);
    disarm_steps(endings.waited.items, endings.waited.count);
    forget_waits(endings.waited.items, endings.waited.count);
    delete_jobs_and_attempts(endings.unkept.items, endings.unkept.count);
    move_to_dead_letters(endings.buried.items, endings.buried.count);
}

void settle_endings_as_owner(const Endings &endings, TimestampTz now) {
    if (is_empty(endings)) return;
    with_owner_spi([&] { settle_endings(endings, now); });
}

Operated apply_and_note(const Datum *ids, int count, const core::Event &event, Endings *endings, const Datum *errors) {
    Operated operated = {0, core::JobStatus::Pending};
    change_locked_jobs(
        count, [&](int i) { return DatumGetInt64(ids[i]); },
        [&](JobsTable *jobs, int i) {
            const JobState before = state_of(*jobs);
            if (!core::applies(event.kind, before.life)) return true;
            core::Life after = core::after_event(before.life, event);
            OtherColumns others = {};
            if (errors != nullptr) others.set(kJobError, errors[i]);
            if (!write_life(jobs, before, after, others, &after)) return false;
            operated = {operated.count + 1, after.status};
            note_end(*jobs, before, after, event.now, endings);
            return true;
        });
    return operated;
}

Operated apply_and_end(const Datum *ids, int count, const core::Event &event, const Datum *errors) {
    Endings endings = {};
    const Operated operated = apply_and_note(ids, count, event, &endings, errors);
    settle_endings(endings, event.now);
    return operated;
}

void expire_jobs(const Datum *ids, int count, TimestampTz now) {
    auto *errors = allocate_array<Datum>(static_cast<uint64>(count));
    std::fill(errors, errors + count, CStringGetTextDatum("expired"));
    apply_and_end(ids, count, {core::EventKind::Expired, now}, errors);
}

void delete_attempts(Datum *ids, int count) {
    if (count > 0) run(delete_attempts_of, Params().add(array_of(ids, count, INT8OID)));
    delete_log_lines(ids, count);
}

void move_attempts(int64 from, int64 to) {
    run(move_attempts_of, Params().add(Int64GetDatum(from)).add(Int64GetDatum(to)));
    move_log_lines(from, to);
}

void delete_all_attempts() {
    run(delete_every_attempt, Params());
    delete_all_log_lines();
}

void delete_jobs_and_attempts(Datum *ids, int count) {
    count = without_needed(ids, nullptr, count);
    if (count > 0) delete_rows(ids, count);
}

int64 delete_jobs(Datum *ids, int count) {
    int64 deleted = 0;
    for (int first = 0; first < count; first += kDeletedAtOnce) {
        Rows gone = delete_rows(ids + first, Min(count - first, kDeletedAtOnce));
        for (uint64 i = 0; i < gone.size(); i++) {
            log_finished(gone[i].int64_at(3));
            if (!gone[i].is_null(4)) publish_group_free(gone[i].int64_at(4));
        }
        deleted += static_cast<int64>(gone.size());
        gone.free();
        CHECK_FOR_INTERRUPTS();
    }
    return deleted;
}

}  // namespace jobq
