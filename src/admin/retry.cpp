// See retry.h.
#include "compat/pg.h"

#include "admin/operate.h"
#include "admin/retry.h"
#include "compat/args.h"
#include "compat/memory.h"
#include "compat/subtransaction.h"
#include "core/retry.h"
#include "core/unique_key.h"
#include "edges/awaits.h"
#include "edges/edges.h"
#include "enqueue/unique.h"
#include "finish/dead_letters.h"
#include "finish/kept_keys.h"
#include "finish/log_lines.h"
#include "groups/deadlock.h"
#include "groups/dependents.h"
#include "job/change_job.h"
#include "log/transaction_log.h"
#include "queues/directory.h"
#include "row/current_status.h"
#include "row/locked_jobs.h"
#include "steps/steps.h"

#include <algorithm>

namespace jobq {

namespace {

#define REDRIVABLE                                                                                                    \
    "SELECT " LOCKED_COLUMNS                                                                                          \
    " FROM jobq.jobs j WHERE (j.queue = $1 OR j.dead_from = $1) AND j.status = 'failed' AND j.dead_from IS NOT NULL " \
    "AND ($4 IS NULL OR j.dead_from = ANY ($4)) AND " KEY_IS_FREE("$3") " "
UnheldJobs letters = {
    {REDRIVABLE "ORDER BY j.id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED",
     {TEXTOID, INT8OID, TIMESTAMPTZOID, TEXTARRAYOID},
     Planning::Free},
    {REDRIVABLE "LIMIT least($2, 1)", {TEXTOID, INT8OID, TIMESTAMPTZOID, TEXTARRAYOID}, Planning::Free}};

// The jobs to retry, which are locked, and the options of the retry.
struct Retries {
    const Rows &locked;
    TimestampTz now;
    // `paced`, `paced_count`, and `per_second` are set only by jobq_redrive. If `paced` is nullptr, the jobs are due
    // now and keep their number of attempts.
    Datum *paced = nullptr;  // the ids, in the order in which the jobs become due
    int paced_count = 0;
    double per_second = 0;
    core::OptInt64 last_step = {};  // the last step that is kept
    RetryChanges changes = {};
};

bool wants_before(const WantedKey &a, const WantedKey &b) {
    const std::string_view queue_a = view(a.queue), key_a = view(a.unique_key);
    const std::string_view queue_b = view(b.queue), key_b = view(b.unique_key);
    if (core::key_before(queue_a, key_a, queue_b, key_b)) return true;
    return queue_a == queue_b && key_a == key_b && a.own < b.own;
}

// Returns the unique key that a locked job had before it finished.
WantedKey wanted_key(const Row &row) {
    WantedKey key = {};
    key.queue = make_text(row.text_at(kLockedQueue));
    key.unique_key = make_text(row.text_at(kLockedWantsKey));
    key.own = row.int64_at(kLockedId);
    return key;
}

// Cancels the holders of keys that have expired but that the duty "expire" has not canceled yet, and looks up the
// holders of these keys again. Leaves out the locked jobs, because a retry clears their expires_at.
void expire_holders(const Rows &locked, WantedKey *keys, int count, TimestampTz now) {
    for (WantedKey *key = keys; key < keys + count; key++) {
        if (!key->expired || is_locked(locked, key->holder)) continue;
        expire_holder(*key, now);
        key->holder = 0;
        find_holders(key, 1, now);
    }
}

// Writes to `keys` the unique keys that these jobs had before they finished, and returns the number of keys. `keys`
// must have room for one key per job. Sets the holder of each key to the job that holds the key now. If no job holds
// the key now and several of these jobs had it, the first of them counts as the holder for the others.
int find_contenders(const Rows &locked, TimestampTz now, WantedKey *keys) {
    int count = 0;
    for (uint64 i = 0; i < locked.size(); i++) {
        if (locked[i].is_null(kLockedWantsKey)) continue;
        keys[count++] = wanted_key(locked[i]);
    }
    std::sort(keys, keys + count, wants_before);
    find_holders(keys, count, now);
    expire_holders(locked, keys, count, now);
    for (int i = 1; i < count; i++) {
        const WantedKey &before = keys[i - 1];
        if (keys[i].holder != 0 || view(keys[i].unique_key) != view(before.unique_key) ||
            view(keys[i].queue) != view(before.queue))
            continue;
        keys[i].holder = before.holder != 0 ? before.holder : before.own;
    }
    return count;
}

// Jobs that would wait forever in the line of their group, because the head of the group awaits them.
struct Deadlocked {
    Rows rows;  // id, head
    bool has(int64 id) const {
        for (uint64 i = 0; i < rows.size(); i++)
            if (rows[i].int64_at(1) == id) return true;
        return false;
    }
};

Deadlocked find_deadlocked(const Rows &locked) {
    if (!any_active(EdgeKind::Awaits)) return {Rows(nullptr, 0)};
    ArrayColumn jobs(static_cast<int>(locked.size())), lines(static_cast<int>(locked.size()));
    for (uint64 i = 0; i < locked.size(); i++) {
        if (locked[i].is_null(kLockedLine)) continue;
        jobs.add(locked[i].get(kLockedId));
        lines.add(locked[i].get(kLockedLine));
    }
    return {find_rings_by_line(jobs.array(INT8OID), lines.array(INT8OID))};
}

void report_deadlocked(const Deadlocked &found, int level) {
    if (found.rows.size() == 0) return;
    const auto job = static_cast<long long>(found.rows[0].int64_at(1));
    const auto head = static_cast<long long>(found.rows[0].int64_at(2));
    ereport(level,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("job %lld was not retried because job %lld waits for it", job, head),
             errdetail("Job %lld would come after job %lld in its group, so neither job could ever run.", job, head),
             errhint("Retry the job after job %lld has finished.", head)));
}

// The ids of locked jobs: first the jobs without a unique key, then the jobs with unique keys, in the order of their
// keys. All sessions acquire keys in this order to avoid deadlocks.
struct Retriable {
    Datum *ids;
    int without_key;
    int count;
};

Retriable retriable(const Rows &locked, TimestampTz now, bool refuse) {
    const Deadlocked deadlocked = find_deadlocked(locked);
    report_deadlocked(deadlocked, refuse ? ERROR : NOTICE);
    auto *keys = static_cast<WantedKey *>(palloc_extended(sizeof(WantedKey) * (locked.size() + 1), MCXT_ALLOC_HUGE));
    Retriable found = {static_cast<Datum *>(palloc_extended(sizeof(Datum) * (locked.size() + 1), MCXT_ALLOC_HUGE)), 0,
                       0};
    for (uint64 i = 0; i < locked.size(); i++)
        if (locked[i].is_null(kLockedWantsKey) && !deadlocked.has(locked[i].int64_at(kLockedId)))
            found.ids[found.count++] = locked[i].get(kLockedId);
    found.without_key = found.count;
    const int keyed = find_contenders(locked, now, keys);
    for (int i = 0; i < keyed; i++) {
        if (deadlocked.has(keys[i].own)) continue;
        if (keys[i].holder == 0)
            found.ids[found.count++] = Int64GetDatum(keys[i].own);
        else if (refuse)
            key_taken(keys[i], "Retry the job after the other job has finished, or delete the other job.");
    }
    return found;
}

void send_letters_home(const Rows &locked, const Datum *ids, int count) {
    auto *letters = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (count + 1), MCXT_ALLOC_HUGE));
    int letter_count = 0;
    for (int i = 0; i < count; i++)
        if (locked_row(locked, DatumGetInt64(ids[i])).bool_at(kLockedIsDeadLetter)) letters[letter_count++] = ids[i];
    return_dead_letters(letters, letter_count);
}

void check_pacing(int count, double per_second) {
    if (core::paced(0, count - 1, per_second) > core::kLongestPacing)
        ereport(
            ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("argument \"per_second\" is too small: the last of %d jobs would run more than ten years from now",
                    count),
             errhint("Specify a higher \"per_second\" or a lower \"max_jobs\".")));
}

bool lower_id(Datum a, Datum b) { return DatumGetInt64(a) < DatumGetInt64(b); }

// Returns the time at which a job is due again, based on its position in `paced`.
TimestampTz paced_run_at(const Retries &retries, int64 id) {
    const Datum wanted = Int64GetDatum(id);
    const auto place =
        std::lower_bound(retries.paced, retries.paced + retries.paced_count, wanted, lower_id) - retries.paced;
    return core::paced(retries.now, place, retries.per_second);
}

// Returns the number of the last step that the job keeps, 0 if it keeps none, or no value if this depends on its
// status. A job with a new payload loses its steps, because they were computed from the old payload.
core::OptInt64 last_step_of(const Retries &retries, const core::Life &before) {
    if (retries.changes.keep_steps) return before.steps;
    return retries.changes.payload != Datum(0) ? core::OptInt64(0) : retries.last_step;
}

// Returns the event that makes the job run again. A redrive resets the number of attempts, so that a job that fails
// again is retried as often as a new job, with short delays at first. The earlier attempts stay in jobq.attempts.
core::Event event_of(const Retries &retries, const JobState &before) {
    core::Event event = {core::EventKind::Retried, retries.now};
    event.run_at = retries.changes.run_at.value_or(retries.now);
    event.max_attempts = retries.changes.max_attempts;
    event.last_step = last_step_of(retries, before.life);
    if (retries.paced == nullptr) return event;
    event.kind = core::EventKind::StartedOver;
    event.run_at = paced_run_at(retries, before.id);
    return event;
}

// Raises an error if a finished job keeps a unique key of one of the retried jobs. The retried jobs are already in the
// unique index again, but while this session waited for the index, another job with the key might have finished and
// kept the key (unique_for). Therefore, this check uses a newer snapshot, as jobq_enqueue does.
void refuse_kept_keys(const Retries &retries, const Datum *ids, int count) {
    if (!any_kept_key()) return;
    auto *keys = allocate_array<WantedKey>(static_cast<uint64>(count));
    int keyed = 0;
    for (int i = 0; i < count; i++) {
        const Row row = locked_row(retries.locked, DatumGetInt64(ids[i]));
        if (!row.is_null(kLockedWantsKey)) keys[keyed++] = wanted_key(row);
    }
    find_kept_by_latest(keys, keyed, retries.now);
    for (const WantedKey *key = keys; key < keys + keyed; key++) {
        if (key->holder == 0) continue;
        if (IsolationUsesXactSnapshot()) kept_since_snapshot();
        key_taken(*key, "");
    }
}

// Makes locked jobs run again, in the order of `ids`. Returns how many jobs were retried.
int64 retry_locked(const Retries &retries, Datum *ids, int count) {
    Notes<Datum> waiting = {}, anew = {};
    OtherColumns others = {};
    if (retries.changes.payload != Datum(0)) others.set(kJobPayload, retries.changes.payload);
    Edges edges = {};
    send_letters_home(retries.locked, ids, count);
    change_locked_jobs(
        count, [&](int i) { return DatumGetInt64(ids[i]); },
        [&](JobsTable *jobs, int) {
            const JobState before = state_of(*jobs);
            core::Event event = event_of(retries, before);
            if (!core::applies(event.kind, before.life)) return true;
            // A job that has never started might have been canceled because of a dependency, so it waits for its
            // dependencies again. When they have finished, a job with a group enters the line of the group. The head of
            // a group stays the head unless it has to wait for dependencies.
            event.waits = !before.life.started_at && has_edges_from(&edges, before.id, EdgeKind::Depends) &&
                          (!before.life.group_active || has_reason_to_wait(before.id));
            core::Life after = core::after_event(before.life, event);
            if (!write_life(jobs, before, after, others, &after)) return false;
            if (event.waits) waiting.add(Int64GetDatum(before.id));
            // Requests a check of this job, because the head of its group might have begun to await the job in the
            // meantime, which would be a deadlock (groups/deadlock.h).
            if (after.group_waiting) log_unblocked(Blocker::Edge, -before.id);
            if (before.life.steps && !after.steps) anew.add(Int64GetDatum(before.id));
            return true;
        });
    close_edges(&edges);
    refuse_kept_keys(retries, ids, count);
    drop_all_steps_of(anew.items, anew.count);
    forget_edges_from(anew.items, anew.count, EdgeKind::Child);
    forget_waits(anew.items, anew.count);
    if (waiting.count > 0) {
        const Datum jobs = array_of(waiting.items, waiting.count, INT8OID);
        lock_dependents(jobs);
        settle_dependents(jobs);
    }
    drop_own_kept_keys(ids, count);
    return count;
}

// Makes the jobs run again. If another session has taken a job's unique key since the check, skips the job. Raises all
// other errors.
int64 retry_those_with_free_keys(const Retries &retries, const Retriable &found) {
    Datum *keyed = found.ids + found.without_key;
    int64 done = found.without_key;
    if (found.without_key > 0) retry_locked(retries, found.ids, found.without_key);
    change_all_or_each(
        found.count - found.without_key, [&](int first, int n) { retry_locked(retries, keyed + first, n); },
        [&](int) { done++; },
        [&](int i, const FailureText &failure) {
            if (failure.sqlstate != ERRCODE_UNIQUE_VIOLATION) done += retry_locked(retries, keyed + i, 1);
        });
    return done;
}

void check_may_enqueue(Oid caller, const Row &locked) {
    const std::string_view queue = locked.text_at(kLockedQueue);
    if (may_call(caller, "jobq_enqueue", queue)) return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("permission denied to change the payload of job %lld",
                           static_cast<long long>(locked.int64_at(kLockedId))),
                    errdetail("A new payload requires the privilege to call jobq_enqueue() for queue \"%.*s\".",
                              static_cast<int>(queue.size()), queue.data()),
                    errhint("Grant the role the profile 'producer' with jobq_grant(role, profile, queues).")));
}

// Raises an error if a retry with changes could not change the job. A status alone would not tell the caller that the
// changes were not made, because a pending job has the same status after a retry as before.
void refuse_unchanged(int64 id, const QueueScope *scope) {
    core::JobStatus status;
    if (!home_is_in_scope(scope, id) || !current_status(id, &status)) return;
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("job %lld is neither finished nor scheduled", static_cast<long long>(id)),
                    errdetail("Only a finished or scheduled job can be retried with changes."),
                    errhint("Cancel the job first, or wait until it has finished.")));
}

// Records a retry of one job by an operator.
void note_retry(const Retriable &found, const char *change, const char *detail, TimestampTz now) {
    if (found.count > 0) write_operator_line(DatumGetInt64(found.ids[0]), change, detail, now);
}

// Returns " (changed: ...)" with the names of the arguments that change the job.
const char *detail_of(const RetryChanges &changes) {
    const bool changed[] = {changes.payload != Datum(0), changes.run_at.has_value(), changes.max_attempts > 0};
    constexpr const char *kNames[] = {"payload", "run_at", "max_attempts"};
    if (!changes.any()) return "";
    StringInfoData detail;
    initStringInfo(&detail);
    for (size_t i = 0; i < lengthof(kNames); i++)
        if (changed[i]) appendStringInfo(&detail, "%s%s", detail.len == 0 ? " (changed: " : ", ", kNames[i]);
    appendStringInfoChar(&detail, ')');
    return detail.data;
}

}  // namespace

void retry_job(int64 id, const RetryChanges &changes, const QueueScope *scope, TimestampTz now) {
    Datum job = Int64GetDatum(id);
    const Rows locked = lock_applicable(Operation::Retry, array_of(&job, 1, INT8OID), scope);
    if (locked.size() == 0 && changes.any()) refuse_unchanged(id, scope);
    if (locked.size() > 0 && changes.payload != Datum(0)) check_may_enqueue(changes.caller, locked[0]);
    const Retriable found = retriable(locked, now, true);
    retry_locked({.locked = locked, .now = now, .changes = changes}, found.ids, found.count);
    note_retry(found, "retried", detail_of(changes), now);
}

void retry_from(int64 id, text *step, const QueueScope *scope, TimestampTz now) {
    Datum job = Int64GetDatum(id);
    const Rows locked = lock_applicable(Operation::Retry, array_of(&job, 1, INT8OID), scope);
    if (locked.size() == 0) return;
    const int64 number = require_step(id, step);
    const Retriable found = retriable(locked, now, true);
    const int64 last_step = drop_steps_from(id, number);
    forget_waits_without_step(id);
    retry_locked({.locked = locked, .now = now, .last_step = last_step}, found.ids, found.count);
    note_retry(found, "retried", psprintf(" (from step \"%s\")", text_to_cstring(step)), now);
}

int64 retry_those_with_free_keys(Datum ids, TimestampTz now) {
    const Rows locked = lock_applicable(Operation::Retry, ids, nullptr);
    return retry_those_with_free_keys({locked, now}, retriable(locked, now, false));
}

int64 redrive(text *queue, const QueueScope *scope, int64 max_jobs, double per_second, TimestampTz now) {
    const Rows locked = lock_unheld(&letters, Params()
                                                  .add(PointerGetDatum(queue))
                                                  .add(Int64GetDatum(max_jobs))
                                                  .add(TimestampTzGetDatum(now))
                                                  .add_if(scope != nullptr, scope_array(scope)));
    for (uint64 i = 0; i < locked.size(); i++) require_known_queue(locked[i].text_at(kLockedQueue));
    const Retriable found = retriable(locked, now, false);
    check_pacing(found.count, per_second);
    auto *paced = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (found.count + 1), MCXT_ALLOC_HUGE));
    std::copy(found.ids, found.ids + found.count, paced);
    std::sort(paced, paced + found.count, lower_id);
    return retry_those_with_free_keys(
        {.locked = locked, .now = now, .paced = paced, .paced_count = found.count, .per_second = per_second}, found);
}

}  // namespace jobq
