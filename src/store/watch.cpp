// See watch.h.
#include "pg/pg.h"

#include "pg/args.h"
#include "pg/memory.h"
#include "pg/spi.h"
#include "shared/leases.h"
#include "shared/marks.h"
#include "shared/memory.h"
#include "shared/publish.h"
#include "store/watch.h"

extern "C" {
#include "commands/trigger.h"
#include "utils/portal.h"
}

namespace jobq {

namespace {

Statement read_unwatched = {
    R"(SELECT j.id, j.lease, j.worker_id FROM jobq.jobs j
       WHERE j.status = 'processing' AND j.watched IS NOT TRUE)",
    {},
    Planning::Free};

// Rows that somebody holds are left out: they are found again the next time.
Statement watch = {
    R"(UPDATE jobq.jobs j SET watched = true
       WHERE j.id = ANY (ARRAY (
           SELECT h.id FROM unnest($1, $2) AS u(id, lease),
                LATERAL (SELECT h.id FROM jobq.jobs h
                         WHERE h.id = ANY (ARRAY[u.id]) AND h.lease IS NOT DISTINCT FROM u.lease AND h.status = 'processing'
                         FOR NO KEY UPDATE SKIP LOCKED) h)))",
    {INT8ARRAYOID, INT8ARRAYOID}};

// Without shared memory: no row when running jobs have been looked for since the server started and in this epoch of
// the triggers, or are just now. $2: no epoch, they are switched off.
Statement lock_unwatched_unknown = {
    R"(SELECT 1 FROM jobq.tick_state t
       WHERE t.unwatched_found_for IS DISTINCT FROM pg_postmaster_start_time() OR t.unwatched_found_in IS DISTINCT FROM $1
          OR $2
       FOR UPDATE SKIP LOCKED)",
    {INT8OID, BOOLOID},
    Planning::Free};
Statement set_unwatched_found = {
    "UPDATE jobq.tick_state t SET unwatched_found_for = pg_postmaster_start_time(), unwatched_found_in = $1",
    {INT8OID},
    Planning::Free};

bool runs_unwatched(const JobsTable &jobs, int64 lease) {
    return DatumGetObjectId(job_value(jobs, kJobStatus)) == processing_status() && job_has(jobs, kJobLease) &&
           DatumGetInt64(job_value(jobs, kJobLease)) == lease && !job_has(jobs, kJobWatched);
}

TimestampTz deadline_of(const JobsTable &jobs) {
    bool none;
    const Datum timeout = job_value(jobs, kJobLeaseTimeout, &none);
    if (!job_has(jobs, kJobLastHeartbeat)) return DT_NOBEGIN;
    const TimestampTz lost =
        core::saturating_add(DatumGetTimestampTz(job_value(jobs, kJobLastHeartbeat)),
                             none ? core::kDefaultHeartbeatTimeout : span_of(DatumGetIntervalP(timeout)));
    const Datum must_end = job_value(jobs, kJobMustEndAt, &none);
    return none ? lost : Min(lost, DatumGetTimestampTz(must_end));
}

// `pristine`: the transaction has changed nothing so far, so that what it sees has been committed. False: somebody
// holds the job.
bool watch_one(JobsTable *jobs, const YoungLease &young, bool pristine) {
    constexpr AttrNumber changed[] = {kJobWatched};
    if (!find_job(jobs, young.job) || !runs_unwatched(*jobs, young.lease)) {
        if (pristine)
            drop_lease(young.job, young.lease);
        else
            end_lease(young.job, young.lease);
        return true;
    }
    if (!lock_row_or_skip(&jobs->table)) return false;
    begin_change(&jobs->table);
    set_column(&jobs->table, kJobWatched, BoolGetDatum(true));
    const TimestampTz deadline = deadline_of(*jobs);
    if (!update_row(&jobs->table, changed, lengthof(changed))) return false;
    // Not of a job that cannot be marked: the round that this asks for would find no more than this one.
    publish_lease_deadline_at_commit(deadline);
    end_lease(young.job, young.lease);
    return true;
}

// The ids of the leases that list(young, room) gives.
template <typename List>
Datum ids_of(List list) {
    const int room = leases_held();
    auto *young = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * Max(room, 1)));
    const int count = room == 0 ? 0 : list(young, room);
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    for (int i = 0; i < count; i++) ids[i] = Int64GetDatum(young[i].job);
    return array_of(ids, count, INT8OID);
}

// Marks these jobs, as far as they run under these leases (NULL: none) and nobody holds them, as watched. Arrays of
// bigint. Returns how many.
int64 watch_jobs(Datum ids, Datum leases) {
    run(watch, Params().add(ids).add(leases));
    const int64 watched = affected();
    if (watched > 0) publish_lease_deadline_at_commit(DT_NOBEGIN);
    return watched;
}

void watch_now(int64 job, Datum lease, bool unleased) {
    Datum id = Int64GetDatum(job);
    with_spi([&] { watch_jobs(array_of(&id, 1, INT8OID), array_of(&lease, &unleased, 1, INT8OID)); });
}

struct Unwatchable {
    int64 job;  // the first of them, 0: there is none
    int count;
    int64 held;  // by others
};

// At once or, where that fails, one by one.
Unwatchable watch_all(Datum *ids, Datum *leases, bool *unleased, int count, FailureText *failure) {
    Unwatchable left_out = {0, 0, 0};
    int64 watched = 0;
    const auto watch_some = [&](int first, int n) {
        watched +=
            watch_jobs(array_of(ids + first, n, INT8OID), array_of(leases + first, unleased + first, n, INT8OID));
    };
    if (count == 0 || attempt([&] { watch_some(0, count); }, failure)) {
        left_out.held = count - watched;
        return left_out;
    }
    for (int i = 0; i < count; i++) {
        FailureText another;
        if (attempt([&] { watch_some(i, 1); }, left_out.count == 0 ? failure : &another)) continue;
        if (left_out.count++ == 0) left_out.job = DatumGetInt64(ids[i]);
    }
    left_out.held = count - watched - left_out.count;
    return left_out;
}

bool has_entered = false;  // a lease, at some time

// As PREPARE TRANSACTION does before it calls us.
void fire_deferred_triggers() {
    do {
        AfterTriggerFireDeferred();
    } while (PreCommit_Portals(true));
}

}  // namespace

int watch_leases(const YoungLease *leases, int count, int at_most) {
    const bool pristine = !TransactionIdIsValid(GetTopTransactionIdIfAny());
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    int settled = 0;
    for (int i = 0; i < count && settled < at_most; i++) {
        CHECK_FOR_INTERRUPTS();
        settled += watch_one(&jobs, leases[i], pristine);
    }
    close_jobs(&jobs);
    return settled;
}

void watch_before_prepare() { has_entered = true; }

void watch_own_leases() {
    if (!has_entered) return;
    const int room = leases_held();
    auto *own = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * Max(room, 1)));
    while (const int count = leases_of_this_transaction(own, room)) {
        watch_leases(own, count, count);
        if (leases_of_this_transaction(own, room) == count) break;
        // Those of before have fired already; and one of somebody's may claim in turn.
        fire_deferred_triggers();
    }
    pfree(own);
}

void watch_arrived_job(int64 job, int64 lease, const text *worker_id) {
    const TimestampTz due = GetCurrentTimestamp() + kUnwatched;
    if (enter_lease(job, lease, worker_hash_of(worker_id), due)) {
        watch_before_prepare();
        publish_due_at_commit(due);
        return;
    }
    watch_now(job, Int64GetDatum(lease), false);
}

void watch_unleased_job(int64 job) { watch_now(job, Datum(0), true); }

UnwatchedSearch find_unwatched_jobs() {
    UnwatchedSearch search = {};
    // What an old snapshot shows may be long over, and what has come since is behind it.
    if (IsolationUsesXactSnapshot()) return search;
    const TimestampTz begin = GetCurrentTimestamp();
    const uint64 epoch = marks_epoch();
    const Datum epoch_value = Int64GetDatum(static_cast<int64>(epoch));
    // Preloaded before, and not any more: claims of then may have left jobs unwatched.
    const bool alone = !shared_memory_ready();
    if (alone ? run(lock_unwatched_unknown, Params().add(epoch_value).add(BoolGetDatum(epoch == kNoMarks))).size() == 0
              : next_look_for_unwatched(epoch) > begin)
        return search;
    search.looked = true;
    const Rows rows = run(read_unwatched, Params());
    auto *ids = room_for<Datum>(rows.size());
    auto *leases = room_for<Datum>(rows.size());
    auto *unleased = room_for<bool>(rows.size());
    int homeless = 0;
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        const text *worker_id = row.is_null(3) ? make_text("") : DatumGetTextPP(row.get(3));
        const bool has_lease = !row.is_null(2);
        if (has_lease && enter_found_lease(row.int64_at(1), row.int64_at(2), worker_hash_of(worker_id))) continue;
        ids[homeless] = row.get(1);
        leases[homeless] = has_lease ? row.get(2) : Datum(0);
        unleased[homeless++] = !has_lease;
    }
    const Unwatchable left_out = watch_all(ids, leases, unleased, homeless, &search.failure);
    search.left_out = left_out.job;
    // Some are held by others, or what was marked may roll back: then it is looked again.
    if (!alone) {
        if (left_out.held > 0 || homeless == left_out.count) looked_for_unwatched(epoch, begin, left_out.held > 0);
    } else if (left_out.held == 0) {
        run(set_unwatched_found, Params().add(epoch_value));
    }
    return search;
}

TimestampTz next_search_for_unwatched() {
    const uint64 epoch = marks_epoch();
    const TimestampTz next = next_look_for_unwatched(epoch);
    // The repair sets the role in which a trigger fires right, which then is to be looked behind.
    return epoch == kNoMarks ? Min(next, GetCurrentTimestamp() + core::kSecond) : next;
}

Datum unwatched_jobs() {
    return ids_of([](YoungLease *young, int room) { return visible_leases(young, room); });
}

Datum unwatched_jobs_of_worker(const text *worker_id) {
    return ids_of(
        [&](YoungLease *young, int room) { return leases_of_worker(worker_hash_of(worker_id), young, room); });
}

}  // namespace jobq
