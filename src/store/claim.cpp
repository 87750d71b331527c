// See claim.h. The claim: go to the first place where a job can be, lock what is there, mark it as claimed.
//
// Below SQL (store/jobs_table.h), lane by lane in the order of their heads. A row that somebody holds or has changed
// since our snapshot is passed over; a row that we locked is the version that our snapshot saw.
#include "pg/pg.h"

#include "core/interval.h"
#include "pg/args.h"
#include "shared/claimed.h"
#include "shared/counting.h"
#include "shared/leases.h"
#include "shared/marks.h"
#include "shared/publish.h"
#include "store/claim.h"
#include "store/learn.h"
#include "store/watch.h"

#include <algorithm>

extern "C" {
#include "common/pg_prng.h"
}

namespace jobq {

namespace {

using core::ClaimKey;

// So many entries of jobs that are gone, and the next claims shall be spared them; noted ones cost less, and those
// whose claims are still going on cannot be spared anybody: then it need not be tried all the time.
constexpr int kWorthLearning = 8;
constexpr int kNotedWorthLearning = 12;
constexpr core::Micros kLearningPause = 1000;
// Or after so many jobs: entries that the index itself has marked as dead are passed without notice, page by page.
constexpr int kLearnAfterJobs = 128;
int jobs_since_learning = 0;
// The next so many single claims shall read no more of the index than they need. Whoever claims as many at a time reads
// most of a page anyway.
constexpr int kReadAhead = 32;

// A lane that the worker may take jobs from, and where its next one can be at the earliest.
struct LaneCursor {
    int64 lane;
    ClaimKey next;
    int passed;      // entries of jobs that are gone
    int noted;       // entries passed over because somebody claimed the job a moment ago
    bool seen;       // the claim has been there
    bool use_marks;  // and notes; not for what this very transaction has enqueued: nobody has been told of it yet
};

bool later(const LaneCursor &a, const LaneCursor &b) { return b.next < a.next; }

struct Claim {
    const ClaimRequest &request;
    const Queue &queue;
    TimestampTz now;
    ClaimSink *sink;
    JobsTable jobs;
    Datum xid;
    uint32 worker_hash;
    uint64 epoch;  // of the marks
    int count;
    core::Micros earliest_timeout;
    bool use_notes;
};

// From the generator that the server seeds with strong randomness at the start of each process: it must not repeat, but
// it is no secret. Asking the operating system for each lease would cost a tenth of the claim.
int64 new_lease() { return core::lease_from_random(pg_prng_uint64(&pg_global_prng_state)); }

core::Micros timeout_of(const Claim &claim) {
    if (claim.request.heartbeat_timeout > 0) return claim.request.heartbeat_timeout;
    bool none;
    const Datum value = job_value(claim.jobs, kJobHeartbeatTimeout, &none);
    if (none) return claim.queue.heartbeat_timeout;
    // Whatever an UPDATE by hand left there must not stop the queue.
    const Interval *own = DatumGetIntervalP(value);
    const core::Micros span = core::span_micros(own->month, own->day, own->time);
    return Min(Max(span, core::kMinHeartbeatTimeout), core::kMaxHeartbeatTimeout);
}

// Writes the claim into the row that is locked.
void mark_claimed(Claim *claim, int64 lease, core::Micros timeout) {
    constexpr AttrNumber changed[] = {kJobStatus,     kJobReadyAt,           kJobAttempts, kJobWorkerId,
                                      kJobStartedAt,  kJobLastHeartbeat,     kJobClaimXid, kJobWatched,
                                      kJobFinishedAt, kJobCancelRequestedAt, kJobLease,    kJobLeaseTimeout};
    Table *table = &claim->jobs.table;
    Interval lease_timeout = {timeout, 0, 0};
    begin_change(table);
    set_column(table, kJobStatus, ObjectIdGetDatum(processing_status()));
    clear_column(table, kJobReadyAt);
    set_column(table, kJobAttempts, Int32GetDatum(DatumGetInt32(job_value(claim->jobs, kJobAttempts)) + 1));
    set_column(table, kJobWorkerId, PointerGetDatum(claim->request.worker_id));
    set_column(table, kJobStartedAt, TimestampTzGetDatum(claim->now));
    set_column(table, kJobLastHeartbeat, TimestampTzGetDatum(claim->now));
    set_column(table, kJobClaimXid, claim->xid);
    clear_column(table, kJobWatched);
    if (!enter_lease(DatumGetInt64(job_value(claim->jobs, kJobId)), lease, claim->worker_hash,
                     core::saturating_add(claim->now, Min(timeout, kUnwatched)))) {
        set_column(table, kJobWatched, BoolGetDatum(true));
        publish_lease_deadline_at_commit(core::saturating_add(claim->now, timeout));
    } else {
        watch_before_prepare();
    }
    clear_column(table, kJobFinishedAt);
    clear_column(table, kJobCancelRequestedAt);
    set_column(table, kJobLease, Int64GetDatum(lease));
    set_column(table, kJobLeaseTimeout, IntervalPGetDatum(&lease_timeout));
    if (!update_row(table, changed, lengthof(changed))) elog(ERROR, "jobq: a locked job was changed");
    remember_place(claim->jobs, DatumGetInt64(job_value(claim->jobs, kJobId)));
}

// The row that the scan has found. status is looked at because with triggers disabled somebody's UPDATE may have left
// ready_at behind.
bool take_job(Claim *claim) {
    if (DatumGetObjectId(job_value(claim->jobs, kJobStatus)) != pending_status()) return false;
    if (!lock_row_or_skip(&claim->jobs.table)) return false;
    publish_claim_at_abort();
    note_claimed(DatumGetInt64(job_value(claim->jobs, kJobId)), claim->now);
    if (claim->count == 0) claim->xid = FullTransactionIdGetDatum(GetTopFullTransactionId());
    const ClaimedJob job = {&claim->jobs, new_lease(), timeout_of(*claim)};
    mark_claimed(claim, job.lease, job.timeout);
    claim->earliest_timeout = Min(claim->earliest_timeout, job.timeout);
    claim->count++;
    claim->sink->take(job);
    return true;
}

// Takes jobs of the cursor's lane as long as no other lane can have an earlier one, i.e. up to `limit`. Leaves the
// cursor where the lane goes on; kLastKey: at its end.
void take_from_lane(Claim *claim, LaneCursor *cursor, const ClaimKey &limit) {
    const core::EmptyRanges empty = cursor->use_marks ? read_marks(claim->epoch, cursor->lane) : core::EmptyRanges{};
    ClaimKey key = core::skip_empty(empty, cursor->next);
    if (key == core::kLastKey || limit < key) {
        cursor->next = key;
        return;
    }
    cursor->seen = true;
    const bool sparing = cursor->use_marks && claim->request.batch < kReadAhead / 2;
    seek_ready(&claim->jobs, cursor->lane, key, sparing ? expected_end(cursor->lane) : core::kLastKey);
    while (next_ready(&claim->jobs, &key)) {
        cursor->next = core::skip_empty(empty, key);
        if (cursor->next == core::kLastKey || limit < cursor->next) return;
        if (key < cursor->next) {
            seek_ready(&claim->jobs, cursor->lane, cursor->next);
            continue;
        }
        if (claim->use_notes && cursor->use_marks && claimed_just_now(key.id, claim->now))
            cursor->noted++;
        else if (!fetch_ready(&claim->jobs))
            cursor->passed++;
        else
            take_job(claim);
        cursor->next = core::next_key(key);
        if (claim->count < claim->request.batch) continue;
        ClaimKey ahead;
        if (sparing && entry_ahead(claim->jobs.ready, kReadAhead, &ahead)) expect_end(cursor->lane, ahead);
        return;
    }
    cursor->next = core::kLastKey;
}

// The lanes of the queue that the worker may take jobs from, as a heap: the earliest first.
// `skipped`: in some of them marks spare the claim a look.
int matching_lanes(const Claim &claim, LaneCursor *cursors, bool *skipped) {
    const Queue &queue = claim.queue;
    int count = 0;
    *skipped = false;
    const bool blind = IsolationUsesXactSnapshot();
    for (int i = 0; i < queue.lane_count; i++) {
        const Lane &lane = queue.lanes[i];
        if (!core::lane_matches(claim.request.filter, lane.kind, lane.version, lane.required, lane.required_count))
            continue;
        const bool use_marks = !blind && !has_unpublished_jobs(lane.id);
        const ClaimKey first = use_marks ? first_possible_key(claim.epoch, lane.id) : core::kFirstKey;
        *skipped |= !(first == core::kFirstKey);
        if (!(first == core::kLastKey)) cursors[count++] = {lane.id, first, 0, 0, false, use_marks};
    }
    std::make_heap(cursors, cursors + count, later);
    return count;
}

// Returns whether entries were passed over because of notes.
bool take_across_lanes(Claim *claim, LaneCursor *cursors, int count) {
    const int lane_count = count;
    const LaneCursor *end = cursors + count;
    while (count > 0 && claim->count < claim->request.batch) {
        std::pop_heap(cursors, cursors + count, later);
        LaneCursor *first = &cursors[count - 1];
        take_from_lane(claim, first, count > 1 ? cursors[0].next : core::kLastKey);
        if (first->next == core::kLastKey)
            count--;
        else
            std::push_heap(cursors, cursors + count, later);
    }
    jobs_since_learning += claim->count;
    const bool due = jobs_since_learning >= kLearnAfterJobs;
    if (due) jobs_since_learning = 0;
    for (const LaneCursor *cursor = cursors; cursor < end; cursor++) {
        const bool empty = claim->count == 0 && cursor->next == core::kLastKey;
        if (!cursor->use_marks || !cursor->seen) continue;
        if (due || empty || cursor->passed >= kWorthLearning)
            learn_lane(&claim->jobs, cursor->lane, cursor->next, 0);
        else if (cursor->noted >= kNotedWorthLearning)
            learn_lane(&claim->jobs, cursor->lane, cursor->next, kLearningPause);
    }
    return std::any_of(cursors, cursors + lane_count, [](const LaneCursor &cursor) { return cursor.noted > 0; });
}

// A snapshot older than the job is the usual fate of a claim in REPEATABLE READ.
void add_serialization_hint(void *) {
    if (geterrcode() == ERRCODE_T_R_SERIALIZATION_FAILURE)
        errhint("Claim in a READ COMMITTED transaction, or begin the transaction with the claim and retry it.");
}

}  // namespace

int claim_jobs(const ClaimRequest &request, std::string_view name, const Queue &queue, TimestampTz now,
               ClaimSink *sink) {
    ErrorContextCallback context = {error_context_stack, add_serialization_hint, nullptr};
    error_context_stack = &context;
    auto *cursors = static_cast<LaneCursor *>(palloc(sizeof(LaneCursor) * Max(queue.lane_count, 1)));
    bool skipped;
    Claim claim = {request,       queue, now,           sink, {}, Datum(0), worker_hash_of(request.worker_id),
                   marks_epoch(), 0,     core::kLatest, true};
    int count = matching_lanes(claim, cursors, &skipped);
    if (count > 0) {
        open_jobs(&claim.jobs);
        renew_snapshot(&claim.jobs);
        const bool noted = take_across_lanes(&claim, cursors, count);
        if (noted && claim.count < request.batch) {
            // A note may be wrong: nothing is called empty because of it.
            claim.use_notes = false;
            // What has been taken must not be seen again.
            CommandCounterIncrement();
            count = matching_lanes(claim, cursors, &skipped);
            renew_snapshot(&claim.jobs);
            take_across_lanes(&claim, cursors, count);
        }
        close_jobs(&claim.jobs);
    }
    if (claim.count > 0) {
        count_at_commit(name, core::JobStatus::Pending, core::JobStatus::Processing, claim.count);
        publish_due_at_commit(core::saturating_add(now, claim.earliest_timeout));
    } else if (skipped) {
        ask_for_round(now);
    }
    error_context_stack = context.previous;
    return claim.count;
}

}  // namespace jobq
