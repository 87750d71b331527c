// See settle.h. docs/internals/batches.md explains how the duty finds out that all members have ended, and what it
// costs.
#include "compat/pg.h"

#include "batches/callbacks.h"
#include "batches/settle.h"
#include "compat/args.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "enqueue/enqueue_specs.h"
#include "log/transaction_log.h"
#include "row/owner.h"
#include "table/table_in_use.h"

namespace jobq {

namespace {

// How long the duty waits before it tries again to enqueue the callbacks of a batch.
constexpr core::Micros kRetryAfter = 10 * core::kSecond;
// How long the duty rests after a search, in multiples of its duration, because each end of a member can request a
// search.
constexpr int kRest = 20;

Statement find_candidates = {
    R"(SELECT b.id FROM jobq.batch_settings b
       WHERE b.sealed_at IS NOT NULL AND b.finished_at IS NULL AND (b._look_at IS NULL OR b._look_at <= $1)
         AND NOT EXISTS (SELECT FROM jobq.jobs j
                         WHERE j.id = b._witness AND j.batch_id = b.id AND j.status <= 'processing')
       ORDER BY b.sealed_at, b.id LIMIT $2)",
    {TIMESTAMPTZOID, INT8OID}};
Statement find_failing = {
    R"(SELECT 1 FROM jobq.batch_settings b
       WHERE b.sealed_at IS NOT NULL AND b.finished_at IS NULL AND b.error IS NOT NULL LIMIT 1)",
    {}};
Statement find_unsettled = {
    "SELECT 1 FROM jobq.batch_settings b WHERE b.sealed_at IS NOT NULL AND b.finished_at IS NULL LIMIT 1", {}};

Statement lock_batch = {
    R"(SELECT coalesce(b._witness, 0), b.on_complete, b.on_success, b.on_failure FROM jobq.batch_settings b
       WHERE b.id = $1 AND b.sealed_at IS NOT NULL AND b.finished_at IS NULL FOR NO KEY UPDATE SKIP LOCKED)",
    {INT8OID}};
Statement find_unfinished = {
    R"(SELECT j.id FROM jobq.jobs j WHERE j.batch_id = $1 AND j.id >= $2 AND j.status <= 'processing'
       ORDER BY j.id LIMIT 1)",
    {INT8OID, INT8OID}};
// One statement decides whether all members have ended and whether all have completed, so both are from one snapshot.
Statement count_members = {
    R"(SELECT m.unfinished, m.unsuccessful + c.unsuccessful
       FROM (SELECT min(j.id) FILTER (WHERE j.status <= 'processing') AS unfinished,
                    count(*) FILTER (WHERE j.status <> 'completed') AS unsuccessful
             FROM jobq.jobs j WHERE j.batch_id = $1) m,
            (SELECT coalesce(sum(c.failed + c.cancelled), 0)::bigint AS unsuccessful
             FROM jobq.batch_counts c WHERE c.batch_id = $1) c)",
    {INT8OID}};

Statement set_witness = {
    "UPDATE jobq.batch_settings b SET _witness = $2, _look_at = NULL, error = NULL WHERE b.id = $1",
    {INT8OID, INT8OID}};
Statement finish = {
    R"(UPDATE jobq.batch_settings b
       SET finished_at = $2, callbacks = $3, error = NULL, _witness = NULL, _look_at = $2 + interval '1 day'
       WHERE b.id = $1)",
    {INT8OID, TIMESTAMPTZOID, INT8ARRAYOID}};
Statement note_failure = {
    "UPDATE jobq.batch_settings b SET error = $2, _look_at = $3 WHERE b.id = $1 AND b.finished_at IS NULL",
    {INT8OID, TEXTOID, TIMESTAMPTZOID}};

// The callbacks to enqueue.
struct Due {
    bool ended;
    const Jsonb *objects[kCallbacks];  // nullptr: none
};

// Returns a member that has not ended, or 0. Sets *succeeded if all members have completed.
int64 find_witness(int64 id, int64 witness, bool *succeeded) {
    const Rows next = run(find_unfinished, Params().add(Int64GetDatum(id)).add(Int64GetDatum(witness)));
    if (next.size() > 0) return next[0].int64_at(1);
    const Rows counts = run(count_members, Params().add(Int64GetDatum(id)));
    if (!counts[0].is_null(1)) return counts[0].int64_at(1);
    *succeeded = counts[0].int64_at(2) == 0;
    return 0;
}

// Locks the batch, and determines whether its members have ended and which callbacks are due.
Due look_at_batch(int64 id) {
    Due due = {};
    const Rows locked = run(lock_batch, Params().add(Int64GetDatum(id)));
    if (locked.size() == 0) return due;
    bool succeeded = false;
    const int64 known = locked[0].int64_at(1);
    const int64 witness = find_witness(id, known, &succeeded);
    if (witness > 0) {
        if (witness != known) run(set_witness, Params().add(Int64GetDatum(id)).add(Int64GetDatum(witness)));
        return due;
    }
    due.ended = true;
    for (int i = 0; i < kCallbacks; i++) {
        const auto which = static_cast<Callback>(i);
        if (which == (succeeded ? Callback::Failure : Callback::Success) || locked[0].is_null(i + 2)) continue;
        due.objects[i] = DatumGetJsonbP(locked[0].get(i + 2));
    }
    return due;
}

Datum enqueue_callbacks(int64 id, const Due &due, TimestampTz now) {
    JobSpec jobs[kCallbacks];
    Datum ids[kCallbacks];
    int count = 0;
    for (int i = 0; i < kCallbacks; i++)
        if (due.objects[i] != nullptr)
            jobs[count++] = job_of_callback(static_cast<Callback>(i), due.objects[i], id, nullptr, now, false);
    if (count > 0) {
        int number;
        const Enqueued *enqueued = enqueue_specs(jobs, count, nullptr, now, &number);
        for (int i = 0; i < count; i++) ids[i] = Int64GetDatum(enqueued[i].id);
    }
    return array_of(ids, count, INT8OID);
}

void leave_out_batch(int64 id, const FailureText &failure, TimestampTz now, DutyOutcome *outcome) {
    run(note_failure, Params()
                          .add(Int64GetDatum(id))
                          .add(CStringGetTextDatum(failure.message))
                          .add(TimestampTzGetDatum(core::saturating_add(now, kRetryAfter))));
    if (outcome->failed++ == 0)
        snprintf(outcome->error, sizeof(outcome->error), "batch %lld: %s", static_cast<long long>(id), failure.message);
}

// Returns whether the duty must rest now. If so, requests a round for the time after the rest.
bool rests(TimestampTz rested_at) {
    const TimestampTz now = GetCurrentTimestamp();
    if (MyBackendType != B_BG_WORKER || now >= rested_at || rested_at - now > core::kMinute) return false;
    log_due(rested_at);
    return true;
}

}  // namespace

bool settle_batch(int64 id, TimestampTz now) {
    Due due = {};
    as_owner([&] { due = look_at_batch(id); });
    if (!due.ended) return false;
    const Datum callbacks = enqueue_callbacks(id, due, now);
    as_owner([&] { run(finish, Params().add(Int64GetDatum(id)).add(TimestampTzGetDatum(now)).add(callbacks)); });
    return true;
}

DutyOutcome settle_batches(TimestampTz now, int batch) {
    static TimestampTz rested_at = 0;
    DutyOutcome outcome = {};
    // Under an old snapshot, a member that was retried or has joined since would seem to have ended or not to exist.
    if (!is_in_use("batch_settings") || IsolationUsesXactSnapshot() || rests(rested_at)) return outcome;
    TimestampTz since = GetCurrentTimestamp();
    const Rows found = run(find_candidates, Params().add(TimestampTzGetDatum(now)).add(Int64GetDatum(batch)));
    // The time of searches that have found a batch unfinished. Enqueuing callbacks needs no rest.
    core::Micros in_vain = GetCurrentTimestamp() - since;
    for (uint64 i = 0; i < found.size(); i++) {
        CHECK_FOR_INTERRUPTS();
        since = GetCurrentTimestamp();
        const int64 id = found[i].int64_at(1);
        FailureText failure;
        bool finished = false;
        if (attempt([&] { finished = settle_batch(id, now); }, &failure))
            outcome.done += finished ? 1 : 0;
        else
            leave_out_batch(id, failure, now, &outcome);
        if (!finished) in_vain += GetCurrentTimestamp() - since;
    }
    outcome.more = found.size() == static_cast<uint64>(batch) && outcome.done > 0;
    rested_at = GetCurrentTimestamp() + Min(kRest * Max(in_vain, 0), core::kMinute);
    return outcome;
}

bool any_unsettled_batch() { return is_in_use("batch_settings") && run(find_unsettled, Params()).size() > 0; }

bool any_batch_fails() { return is_in_use("batch_settings") && run(find_failing, Params()).size() > 0; }

}  // namespace jobq
