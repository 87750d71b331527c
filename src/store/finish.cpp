// See finish.h. How attempts end other than by completion. Every statement on behalf of a lease's holder names the job,
// its status and the lease: the fence.
#include "pg/pg.h"

#include "core/retry.h"
#include "pg/args.h"
#include "pg/spi.h"
#include "pg/table.h"
#include "shared/counting.h"
#include "shared/limits.h"
#include "shared/publish.h"
#include "store/dead_letters.h"
#include "store/dependencies.h"
#include "store/directory.h"
#include "store/finish.h"
#include "store/groups.h"
#include "store/kept_keys.h"
#include "store/lanes.h"
#include "store/references.h"
#include "store/rows.h"
#include "store/watch.h"

#include <algorithm>

extern "C" {
#include "common/pg_prng.h"
}

namespace jobq {

namespace {

// = ANY (ARRAY[u.id]), not = u.id: no merge join can use it, so the planner has no reason to walk the whole primary
// key, which it prefers when the statistics say that the table is small. What is left is one look-up per id, in their
// order.
#define HELD "j.id = ANY (ARRAY[u.id]) AND j.status = 'processing' AND j.lease = u.lease"

// Those that are watched, and those that were claimed just now, whose ids are $3. No UNION: it might sort.
Statement heartbeat_all_of_worker = {
    R"(UPDATE jobq.jobs j SET last_heartbeat = $2
       WHERE j.id = ANY ($3 || ARRAY (SELECT w.id FROM jobq.jobs w
                                      WHERE w.watched AND w.worker_id = $1 AND w.status = 'processing'))
         AND j.worker_id = $1 AND j.status = 'processing' AND )" IN_SCOPE("$4") R"(
       RETURNING j.id, j.cancel_requested_at IS NOT NULL)",
    {TEXTOID, TIMESTAMPTZOID, INT8ARRAYOID, TEXTARRAYOID}};

Statement lock_held = {
    "SELECT " RUNNING_COLUMNS("u.lease") " "
    "FROM unnest($1, $2) AS u(id, lease), "
    "LATERAL (SELECT * FROM jobq.jobs j WHERE " HELD " AND " IN_SCOPE("$3") " FOR NO KEY UPDATE) j",
    {INT8ARRAYOID, INT8ARRAYOID, TEXTARRAYOID}};

Statement end_and_record = {
    R"(WITH ended AS (
           UPDATE jobq.jobs j
           SET status = u.status::jobq.job_status, run_at = u.run_at,
               ready_at = CASE u.status WHEN 'pending' THEN u.run_at END,
               due_at = CASE u.status WHEN 'scheduled' THEN u.run_at END, attempts = u.attempts,
               unique_held = CASE WHEN u.status NOT IN ('failed', 'cancelled') THEN j.unique_held END,
               group_active = CASE WHEN u.status NOT IN ('failed', 'cancelled') THEN j.group_active END,
               lost_attempts = u.lost_attempts,
               company_lease = CASE WHEN u.outcome = 'lost' AND u.lost_attempts = j.lost_attempts THEN u.lease
                                    ELSE j.company_lease END,
               error = coalesce(u.error, j.error),
               finished_at = CASE WHEN u.status IN ('failed', 'cancelled') THEN $10 END,
               lease = NULL, watched = NULL, must_end_at = NULL, queue_slot = NULL, key_slot = NULL
           FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $11)
                AS u(id, lease, attempt, status, run_at, attempts, lost_attempts, outcome, error, reported)
           WHERE j.id = ANY (ARRAY[u.id])
           RETURNING u.id, u.lease, u.attempt, u.outcome, j.worker_id, j.started_at, u.error, u.reported,
                     j.id = u.id AS same_id)
       INSERT INTO jobq.attempts (job_id, lease, attempt, outcome, worker_id, started_at, finished_at, error, reported)
       SELECT e.id, e.lease, e.attempt, e.outcome, e.worker_id, e.started_at, $10, e.error, e.reported FROM ended e
       WHERE e.same_id)",
    {INT8ARRAYOID, INT8ARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TIMESTAMPTZARRAYOID, INT4ARRAYOID, INT4ARRAYOID,
     TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID, BOOLARRAYOID}};

// A completed job remembers the lease; other attempts are on record. What is deleted leaves no trace.
Statement find_ended = {
    R"(SELECT u.id, u.lease, j.id IS NULL,
              coalesce(j.completed_lease = u.lease, false)
              OR EXISTS (SELECT FROM jobq.attempts a
                         WHERE a.job_id = ANY (ARRAY[u.id]) AND a.lease = u.lease AND a.reported)
       FROM unnest($1, $2) AS u(id, lease)
       LEFT JOIN LATERAL (SELECT * FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" IN_SCOPE("$3") ") j ON true",
    {INT8ARRAYOID, INT8ARRAYOID, TEXTARRAYOID}};

Statement delete_jobs = {"DELETE FROM jobq.jobs j WHERE j.id = ANY ($1) RETURNING j.queue, j.status::text, j.id",
                         {INT8ARRAYOID}};
Statement delete_jobs_and_edges = {
    "WITH gone AS (DELETE FROM jobq.jobs j WHERE j.id = ANY ($1) "
    "RETURNING j.queue, j.status, j.id, j.result)" FORGET_DEPENDENCIES
    " SELECT g.queue, g.status::text, g.id FROM gone g",
    {INT8ARRAYOID}};
Statement delete_attempts_of = {"DELETE FROM jobq.attempts a WHERE a.job_id = ANY ($1)", {INT8ARRAYOID}};

Statement delete_every_attempt = {"DELETE FROM jobq.attempts", {}, Planning::Free};

// The columns of a batch: ids, leases and extras as arrays.
struct HeldArrays {
    Datum ids, leases, extras;
};

HeldArrays arrays_of(const HeldJob *jobs, int count, Oid extra_type) {
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *leases = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *extras = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *absent = static_cast<bool *>(palloc(sizeof(bool) * count));
    for (int i = 0; i < count; i++) {
        ids[i] = Int64GetDatum(jobs[i].id);
        leases[i] = Int64GetDatum(jobs[i].lease);
        extras[i] = jobs[i].extra;
        absent[i] = !jobs[i].has_extra;
    }
    return {array_of(ids, count, INT8OID), array_of(leases, count, INT8OID),
            array_of(extras, absent, count, extra_type)};
}

// The job that a returned row (id, lease, ...) is about; `jobs` is sorted.
HeldJob *job_of(HeldJob *jobs, int count, const Row &row) {
    HeldJob key = {};
    key.id = row.int64_at(1);
    key.lease = row.int64_at(2);
    HeldJob *found = std::lower_bound(jobs, jobs + count, key, [](const HeldJob &a, const HeldJob &b) {
        return a.id != b.id ? a.id < b.id : a.lease < b.lease;
    });
    if (found == jobs + count || found->id != key.id || found->lease != key.lease) key_was_changed(key.id);
    return found;
}

void count_ends(const EndedAttempt *ended, int count) {
    for (int i = 0; i < count; i++) {
        const EndedAttempt &one = ended[i];
        count_at_commit(one.queue, core::JobStatus::Processing, one.status, 1);
        if (strcmp(one.outcome, "failed") == 0) count_event_at_commit(one.queue, core::Event::Failed, 1);
        if (strcmp(one.outcome, "lost") == 0) count_event_at_commit(one.queue, core::Event::Lost, 1);
    }
}

// Locks the jobs that are held, in order, and waits for whoever holds their rows.
Rows lock_held_jobs(const HeldJob *jobs, int count, const QueueScope *scope) {
    const HeldArrays arrays = arrays_of(jobs, count, TEXTOID);
    return run(lock_held, Params().add(arrays.ids).add(arrays.leases).add_if(scope != nullptr, scope_array(scope)));
}

}  // namespace

Rows heartbeat_worker(text *worker_id, const QueueScope *scope, TimestampTz now) {
    const Datum unwatched = unwatched_jobs_of_worker(worker_id);
    return run(heartbeat_all_of_worker, Params()
                                            .add(PointerGetDatum(worker_id))
                                            .add(TimestampTzGetDatum(now))
                                            .add(unwatched)
                                            .add_if(scope != nullptr, scope_array(scope)));
}

void explain_unheld(HeldJob *jobs, int count, const QueueScope *scope) {
    auto *unheld = static_cast<HeldJob *>(palloc(sizeof(HeldJob) * count));
    const HeldJob *end = std::copy_if(jobs, jobs + count, unheld, [](const HeldJob &job) { return !job.held; });
    const HeldArrays arrays = arrays_of(unheld, static_cast<int>(end - unheld), TEXTOID);
    const Rows rows =
        run(find_ended, Params().add(arrays.ids).add(arrays.leases).add_if(scope != nullptr, scope_array(scope)));
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        job_of(jobs, count, row)->unheld = row.bool_at(3)   ? core::Unheld::Gone
                                           : row.bool_at(4) ? core::Unheld::Finished
                                                            : core::Unheld::Lost;
    }
}

void fail_jobs(HeldJob *jobs, int count, const QueueScope *scope, core::Micros retry_in, bool wants_retry,
               TimestampTz now) {
    if (count == 0) return;
    const Rows rows = lock_held_jobs(jobs, count, scope);
    auto *ended = static_cast<EndedAttempt *>(palloc(sizeof(EndedAttempt) * (rows.size() + 1)));
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        HeldJob *job = job_of(jobs, count, row);
        const Queue *queue = find_queue(row.text_at(kQueue));
        const bool cancelled = row.bool_at(kCancelRequested);
        EndedAttempt &attempt = ended[i] = ended_of(row, *queue, cancelled ? "cancelled" : "failed");
        attempt.reported = true;
        attempt.status = core::after_failure(attempt.attempt, row.int32_at(kMaxAttempts), wants_retry, cancelled);
        attempt.error = truncated_error(job->extra, !job->has_extra);
        delay_retry(&attempt, *queue, retry_in, now);
        job->held = true;
        job->status = attempt.status;
    }
    end_attempts(ended, static_cast<int>(rows.size()), now);
}

void give_back_jobs(HeldJob *jobs, int count, const QueueScope *scope, core::Micros delay, const char *outcome,
                    TimestampTz now) {
    if (count == 0) return;
    const Rows rows = lock_held_jobs(jobs, count, scope);
    auto *ended = static_cast<EndedAttempt *>(palloc(sizeof(EndedAttempt) * (rows.size() + 1)));
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        HeldJob *job = job_of(jobs, count, row);
        EndedAttempt &attempt = ended[i] = ended_of(row, *find_queue(row.text_at(kQueue)), outcome);
        attempt.reported = true;
        attempt.attempts = Max(attempt.attempt - 1, 0);
        if (delay > 0) attempt.run_at = core::saturating_add(now, delay);
        attempt.status =
            row.bool_at(kCancelRequested) ? core::JobStatus::Cancelled : core::waiting_status(attempt.run_at, now);
        job->held = true;
        job->status = attempt.status;
    }
    end_attempts(ended, static_cast<int>(rows.size()), now);
}

EndedAttempt ended_of(const Row &row, const Queue &queue, const char *outcome) {
    EndedAttempt ended = {};
    ended.id = row.int64_at(kId);
    ended.lane = row.int64_at(kLane);
    ended.priority = DatumGetInt16(row.get(kPriority));
    ended.queue = row.text_at(kQueue);
    // A job that was set to processing by hand has none.
    ended.lease = row.is_null(kLease) ? 0 : row.int64_at(kLease);
    ended.attempt = row.int32_at(kAttempts);
    ended.attempts = ended.attempt;
    ended.lost_attempts = row.int32_at(kLostAttempts);
    ended.run_at = DatumGetTimestampTz(row.get(kRunAt));
    ended.outcome = outcome;
    ended.keep = queue.keep_failed;
    ended.queue_slot = row.is_null(kQueueSlot) ? 0 : row.int64_at(kQueueSlot);
    ended.key_slot = row.is_null(kKeySlot) ? 0 : row.int64_at(kKeySlot);
    if (!row.is_null(kConcurrencyKey)) ended.concurrency_key = row.text_at(kConcurrencyKey);
    ended.can_be_buried = !queue.dead_letter_queue.empty();
    ended.keeps_key = row.bool_at(kKeepsKey);
    ended.has_group = !row.is_null(kActiveGroup);
    if (ended.has_group) ended.group = row.int64_at(kActiveGroup);
    return ended;
}

void delay_retry(EndedAttempt *attempt, const Queue &queue, core::Micros retry_in, TimestampTz now) {
    if (attempt->status != core::JobStatus::Scheduled) return;
    const core::Micros delay =
        retry_in >= 0 ? retry_in : core::backoff(queue.retry, attempt->attempt, pg_prng_uint32(&pg_global_prng_state));
    attempt->run_at = core::saturating_add(now, delay);
    attempt->status = core::waiting_status(attempt->run_at, now);
}

void end_attempts(const EndedAttempt *ended, int count, TimestampTz now) {
    if (count == 0) return;
    constexpr int kColumns = 9;
    constexpr Oid types[kColumns] = {INT8OID, INT8OID, INT4OID, TEXTOID, TIMESTAMPTZOID,
                                     INT4OID, INT4OID, TEXTOID, TEXTOID};
    Datum *columns[kColumns];
    for (Datum *&column : columns) column = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *no_error = static_cast<bool *>(palloc(sizeof(bool) * count));
    auto *reported = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *unkept = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *buried = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *keyed = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    int unkept_count = 0, buried_count = 0, keyed_count = 0;
    for (int i = 0; i < count; i++) {
        const EndedAttempt &one = ended[i];
        columns[0][i] = Int64GetDatum(one.id);
        columns[1][i] = Int64GetDatum(one.lease);
        columns[2][i] = Int32GetDatum(one.attempt);
        columns[3][i] = CStringGetTextDatum(core::status_name(one.status));
        columns[4][i] = TimestampTzGetDatum(one.run_at);
        columns[5][i] = Int32GetDatum(one.attempts);
        columns[6][i] = Int32GetDatum(one.lost_attempts);
        columns[7][i] = CStringGetTextDatum(one.outcome);
        columns[8][i] = PointerGetDatum(one.error);
        no_error[i] = one.error == nullptr;
        reported[i] = BoolGetDatum(one.reported);
        if (one.queue_slot != 0) slot_freed_at_commit(one.queue, {}, one.queue_slot);
        if (one.key_slot != 0) slot_freed_at_commit(one.queue, one.concurrency_key, one.key_slot);
        if (one.status == core::JobStatus::Scheduled) publish_due_at_commit(one.run_at);
        if (one.status == core::JobStatus::Pending) tell_ready(one.queue, one.lane, {one.run_at, one.id, one.priority});
        if (!core::is_finished(one.status)) continue;
        publish_finished_at_commit(one.id);
        if (one.has_group) publish_group_free(one.group);
        if (one.keeps_key) keyed[keyed_count++] = Int64GetDatum(one.id);
        if (one.status == core::JobStatus::Failed && one.can_be_buried)
            buried[buried_count++] = Int64GetDatum(one.id);
        else if (one.keep == 0)
            unkept[unkept_count++] = Int64GetDatum(one.id);
    }
    Params params;
    for (int c = 0; c < kColumns; c++)
        params.add(array_of(columns[c], c == kColumns - 1 ? no_error : nullptr, count, types[c]));
    params.add(TimestampTzGetDatum(now)).add(array_of(reported, count, BOOLOID));
    run(end_and_record, params);
    require_affected(count);
    count_ends(ended, count);
    keep_keys_of(keyed, keyed_count, now);
    delete_jobs_and_attempts(unkept, unkept_count);
    if (buried_count > 0) bury_jobs(array_of(buried, buried_count, INT8OID));
}

void delete_attempts(Datum *ids, int count) {
    if (count > 0) run(delete_attempts_of, Params().add(array_of(ids, count, INT8OID)));
}

void delete_all_attempts() { run(delete_every_attempt, Params()); }

void delete_jobs_and_attempts(Datum *ids, int count) {
    count = without_dependents(ids, nullptr, count);
    if (count == 0) return;
    require_trusted_followers();
    delete_attempts(ids, count);
    Statement &statement = any_dependency() ? delete_jobs_and_edges : delete_jobs;
    const Rows gone = run(statement, Params().add(array_of(ids, count, INT8OID)));
    count_deleted_rows(gone, 1);
    keep_deleted_rows(gone, 3, 2);
}

}  // namespace jobq
