// See claim.h. The claim: go to the first place where a job can be, lock what is there, mark it as claimed.
//
// Lane by lane (job/jobs_table.h) in the order of their heads. A row that somebody holds or has changed
// since our snapshot is passed over; a row that we locked is the version that our snapshot saw.
#include "compat/pg.h"

#include "base/ablation.h"
#include "claim/claim.h"
#include "claim/fairness_policy.h"
#include "claim/read_ahead.h"
#include "claim/recent_claims.h"
#include "claim/round_robin.h"
#include "compat/args.h"
#include "compat/memory.h"
#include "job/change_job.h"
#include "job/transaction_log.h"
#include "lanes/empty_ranges.h"
#include "lanes/lanes.h"
#include "lanes/other_queue.h"
#include "lanes/ready_walk.h"
#include "lanes/refresh.h"
#include "leases/suspects.h"
#include "leases/rescue_index.h"
#include "leases/young_leases.h"
#include "limits/limiter.h"
#include "limits/throttle.h"
#include "limits/throttled_ranges.h"
#include "shmem/database_state.h"

#include <algorithm>

extern "C" {
#include "common/pg_prng.h"
}

namespace jobq {

namespace {

using core::ClaimKey;

// As kWorthRefreshing: noted entries cost less, and those whose claims are still going on cannot be spared anybody:
// then it need not be tried all the time.
constexpr int kSkippedWorthRefreshing = 12;
// Or after so many jobs: entries that the index itself has marked as dead are passed without notice, page by page.
constexpr int kRefreshAfterJobs = 128;
int jobs_since_refresh = 0;
// So often may other claims move the position first before this one takes a job all the same.
constexpr int kMaxRaces = 64;
// So many keys that have no room now, or suspects only, may come up in vain before the claim takes the first job of one
// that has.
constexpr int kMaxInVain = 256;

constexpr int64 kAnyRoundRobinKey = core::kBeforeFirstRoundRobinKey;

// A lane that the worker may take jobs from, or a part of one, and where its next job can be at the earliest.
struct LaneCursor {
    int64 lane;
    int64 round_robin_key;  // only jobs of this one; kAnyRoundRobinKey
    int16 priority;         // only jobs of this one, under priority_ageing
    ClaimKey begin;
    ClaimKey first_entry;  // that the claim has met, of whatever job; kLastKey: none yet
    ClaimKey next;
    int passed;              // entries of jobs that are gone
    int noted;               // entries passed over because somebody claimed the job a moment ago
    bool seen;               // the claim has been there
    bool skip_empty_ranges;  // and notes; not for what this very transaction has enqueued: nobody has been told of it
                             // yet
    int limited;             // jobs passed over because of their keys
    int suspects;            // and because the worker is on trial
};

// The order of the queue's jobs, as one for heaps.
struct Later {
    core::Micros ageing;
    bool operator()(const LaneCursor &a, const LaneCursor &b) const {
        return ageing == 0 ? b.next < a.next : core::aged_before(b.next, a.next, ageing);
    }
};

// What the claim makes of jobs that have lost a worker before.
enum class Suspects : uint8 { Unasked, OneAlone, PassedOver };

struct Claim {
    const ClaimRequest &request;
    std::string_view name;  // of the queue
    const Queue &queue;
    TimestampTz now;
    ClaimSink *sink;
    JobsTable jobs;
    Datum xid;
    uint32 worker_hash;
    uint64 epoch;  // of the empty ranges
    int count;
    int wanted;  // so many for now, at most the batch
    core::Micros earliest_timeout;
    bool skip_recent_claims;
    Limiter *limiter;  // nullptr: the queue has no limits
    bool closed;       // takes no more: the queue's own limit is used up, or it has come to a suspect
    bool is_open;      // jobs
    Suspects suspects;
    bool behind_suspect;  // one comes next
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
    return core::bounded(core::kHeartbeatTimeout, span_of(DatumGetIntervalP(value)));
}

// 0: as long as it likes.
core::Micros max_runtime_of(const Claim &claim) {
    bool none;
    const Datum value = job_value(claim.jobs, kJobMaxRuntime, &none);
    if (none) return claim.queue.max_runtime;
    return core::bounded(core::kMaxRuntime, span_of(DatumGetIntervalP(value)));
}

// Writes the claim into the row. *unattended: for how long nobody need look at it. `rescue_indexed`: the rescue's index
// has it at once. False: another claim was first.
bool mark_claimed(Claim *claim, int64 lease, core::Micros timeout, bool rescue_indexed, core::Micros *unattended) {
    JobsTable *jobs = &claim->jobs;
    const JobState before = state_of(*jobs);
    core::Event event = {core::EventKind::Claimed, claim->now};
    event.lease = lease;
    event.timeout = timeout;
    event.max_runtime = max_runtime_of(*claim);
    *unattended = core::first_deadline(timeout, event.max_runtime);
    event.rescue_indexed =
        rescue_indexed || !enter_lease(before.id, lease, claim->worker_hash,
                                       core::saturating_add(claim->now, Min(*unattended, kUnindexed)));
    if (!event.rescue_indexed) index_before_prepare();
    if (claim->limiter != nullptr) enter_permits(*claim->limiter, &event);
    OtherColumns others = {};
    others.set(kJobWorkerId, PointerGetDatum(claim->request.worker_id)).set(kJobClaimXid, claim->xid);
    if (!write_life(jobs, before, core::after_event(before.life, event), others, nullptr, LockWaitSkip)) {
        drop_lease(before.id, lease);
        return false;
    }
    if (claim->limiter != nullptr) keep_permits(claim->limiter);
    remember_place(*jobs, before.id);
    return true;
}

// Whether the job in table.row is a suspect that this worker is not given. Seeing that costs far less than the permits
// of a limit.
bool passes_over(Claim *claim) {
    if (!is_suspect(claim->jobs)) return false;
    if (claim->suspects == Suspects::Unasked && claim->count == 0 && !row_is_changing(claim->jobs.table))
        claim->suspects = may_take_suspect(claim->request.worker_id) ? Suspects::OneAlone : Suspects::PassedOver;
    return claim->suspects == Suspects::PassedOver;
}

// A job that has lost a worker before is the only one of its claim; the claim ends before one that comes later, since
// the order is to be kept. A worker that holds another is not given one: see passes_over().
bool may_take_suspect_now(Claim *claim) {
    if (row_is_changing(claim->jobs.table)) return false;
    if (claim->count == 0) return claim->suspects == Suspects::OneAlone;
    claim->closed = claim->behind_suspect = true;
    return false;
}

// The row that the scan has found. status is looked at because with triggers disabled somebody's UPDATE may have left
// run_at behind.
bool take_job(Claim *claim) {
    if (!has_status(claim->jobs, core::JobStatus::Pending) || is_of_other_queue(claim->jobs, claim->name)) return false;
    const bool suspect = is_suspect(claim->jobs);
    if (suspect && !may_take_suspect_now(claim)) return false;
    if (!reach_row_or_skip(&claim->jobs.table)) return false;
    log_claim();
    remember_claim(DatumGetInt64(job_value(claim->jobs, kJobId)), claim->now);
    if (claim->count == 0) claim->xid = FullTransactionIdGetDatum(GetTopFullTransactionId());
    const ClaimedJob job = {&claim->jobs, new_lease(), timeout_of(*claim)};
    core::Micros unattended;
    if (!mark_claimed(claim, job.lease, job.timeout, suspect, &unattended)) return false;
    claim->earliest_timeout = Min(claim->earliest_timeout, unattended);
    claim->count++;
    claim->closed |= suspect;
    claim->sink->take(job);
    return true;
}

// Whether its scans may know how much of the index they need.
bool reads_ahead(const Claim &claim) {
    return core::built_with(core::Mechanism::ReadAhead) && !claim.queue.round_robin;
}

void seek_job(JobsTable *jobs, const LaneCursor &cursor, const ClaimKey &from, const ClaimKey &expected) {
    if (cursor.round_robin_key == kAnyRoundRobinKey)
        seek_ready(jobs, cursor.lane, from, expected);
    else
        seek_round_robin_key(jobs, cursor.lane, cursor.round_robin_key, from);
}

// The same as take_job where the queue has limits. False when the job's key has no room.
bool take_limited_job(Claim *claim, LaneCursor *cursor) {
    // Permits cost far more than to see that another claim was first.
    if (row_is_changing(claim->jobs.table)) return true;
    switch (take_permits(claim->limiter)) {
        case Room::Yes:
            if (!take_job(claim)) return_permits(claim->limiter);
            return true;
        case Room::NotForQueue:
            claim->closed = true;
            return true;
        case Room::NotForKey:
            cursor->limited++;
            break;
    }
    return false;
}

// Takes jobs of the cursor's lane as long as no other lane can have an earlier one, i.e. up to `limit`. Leaves the
// cursor where the lane goes on; kLastKey: at its end.
void take_from_lane(Claim *claim, LaneCursor *cursor, const ClaimKey &limit) {
    const core::EmptyRanges empty =
        cursor->skip_empty_ranges ? read_empty_ranges(claim->epoch, cursor->lane) : core::EmptyRanges{};
    core::EmptyRanges suspects = {};
    const auto know_suspects = [&] {
        if (cursor->skip_empty_ranges && claim->suspects == Suspects::PassedOver)
            suspects = suspect_ranges(cursor->lane, claim->epoch);
    };
    know_suspects();
    core::EmptyRanges throttled = {};
    if (claim->limiter != nullptr && cursor->skip_empty_ranges && anything_throttled())
        throttled = throttled_ranges(&claim->jobs, claim->name, claim->queue, cursor->lane, claim->epoch,
                                     claim->wanted - claim->count, claim->now);
    // Ranges that have been cut up are worth another look.
    if (throttled.count > core::kMaxEmptyRanges / 2) cursor->limited = Max(cursor->limited, kWorthThrottling);
    const auto skip = [&](ClaimKey from) {
        for (;;) {
            const ClaimKey to = core::skip_empty(suspects, core::skip_empty(throttled, core::skip_empty(empty, from)));
            if (to == from) return to;
            from = to;
        }
    };
    ClaimKey key = skip(cursor->next);
    if (key == core::kLastKey || limit < key) {
        cursor->next = key;
        return;
    }
    cursor->seen = true;
    const bool sparing = cursor->skip_empty_ranges && reads_ahead(*claim) && claim->request.batch < kReadAhead / 2;
    const bool ageing = claim->queue.priority_ageing > 0;
    const ClaimKey from = key;
    ClaimKey expected = sparing ? expected_end(cursor->lane) : core::kLastKey;
    if (sparing && ageing) expected = expected_in_priority(cursor->lane, from, expected);
    seek_job(&claim->jobs, *cursor, from, expected);
    while (next_ready(&claim->jobs, &key)) {
        if (key < cursor->first_entry) cursor->first_entry = key;
        cursor->next = skip(key);
        if (cursor->next == core::kLastKey || limit < cursor->next) return;
        if (key < cursor->next) {
            seek_job(&claim->jobs, *cursor, cursor->next, core::kLastKey);
            continue;
        }
        if (claim->skip_recent_claims && cursor->skip_empty_ranges && recently_claimed(key.id, claim->now))
            cursor->noted++;
        else if (!fetch_ready(&claim->jobs))
            cursor->passed++;
        else if (passes_over(claim)) {
            if (cursor->suspects++ == 0) know_suspects();
        } else if (claim->limiter == nullptr)
            take_job(claim);
        else if (!take_limited_job(claim, cursor) && cursor->round_robin_key != kAnyRoundRobinKey) {
            // Nor has any other job of the key.
            cursor->next = core::kLastKey;
            return;
        }
        if (claim->closed) return;
        cursor->next = core::next_key(key);
        if (claim->count < claim->wanted) continue;
        if (sparing && ageing)
            expect_claims_of_priority(&claim->jobs.ready, cursor->lane, from);
        else if (sparing)
            expect_claims(&claim->jobs.ready, cursor->lane);
        return;
    }
    cursor->next = core::kLastKey;
}

// The lanes that the worker may take jobs from, each from where its first job can be.
struct LaneCursors {
    LaneCursor *items;
    int count;
    bool skipped;  // empty ranges spare the claim a look into some of them
};

// `first`: no job of the lane comes before it, as far as the claim knows by itself.
void add_cursor(const Claim &claim, LaneCursors *cursors, int64 lane, ClaimKey first) {
    const bool skip_empty_ranges = may_skip_empty_ranges(lane);
    if (skip_empty_ranges) {
        const ClaimKey possible = first_possible_key(claim.epoch, lane);
        cursors->skipped |= !(possible == core::kFirstKey);
        if (first < possible) first = possible;
    }
    if (first == core::kLastKey) return;
    cursors->items[cursors->count++] = {
        lane, kAnyRoundRobinKey, 0, core::kFirstKey, core::kLastKey, first, 0, 0, false, skip_empty_ranges, 0, 0};
}

void open_for_claim(Claim *claim) {
    if (claim->is_open) return;
    claim->is_open = true;
    open_jobs(&claim->jobs);
    renew_snapshot(&claim->jobs);
}

LaneCursors find_cursors(Claim *claim) {
    const LaneIds lanes = wanted_lanes(claim->name, claim->request.filter);
    LaneCursors cursors = {};
    if (!lanes.many) {
        cursors.items = static_cast<LaneCursor *>(palloc(sizeof(LaneCursor) * Max(lanes.count, 1)));
        for (int i = 0; i < lanes.count; i++) add_cursor(*claim, &cursors, lanes.items[i], core::kFirstKey);
        return cursors;
    }
    int room = 64;
    cursors.items = static_cast<LaneCursor *>(palloc(sizeof(LaneCursor) * room));
    open_for_claim(claim);
    LaneWalk walk = {lanes.items, lanes.count, 0};
    int64 lane;
    ClaimKey first;
    while (next_lane_with_entries(&claim->jobs, &walk, &lane, &first)) {
        if (!wants_lane(claim->name, lane, claim->request.filter)) continue;
        if (cursors.count == room) {
            room *= 2;
            cursors.items = static_cast<LaneCursor *>(repalloc_huge(cursors.items, sizeof(LaneCursor) * room));
        }
        add_cursor(*claim, &cursors, lane, first);
    }
    pfree(lanes.items);
    return cursors;
}

// Each lane's cursor becomes one for each of its priorities, from the first entry there is, and one behind them where
// nothing was found. What a lane's empty ranges call empty is not looked at.
int split_by_priority(Claim *claim, LaneCursor **cursors, int count) {
    int room = count * 4, found = 0;
    auto *split = room_for<LaneCursor>(static_cast<uint64>(room));
    const bool sparing = reads_ahead(*claim);
    ClaimKey sought = core::kFirstKey;
    const auto add = [&](const LaneCursor &lane, const ClaimKey &key) {
        if (found == room) {
            room *= 2;
            split = static_cast<LaneCursor *>(repalloc_huge(split, sizeof(LaneCursor) * room));
        }
        split[found] = lane;
        split[found].priority = key.priority;
        split[found].begin = sought;
        split[found].first_entry = split[found].next = key;
        found++;
    };
    for (const LaneCursor *lane = *cursors; lane < *cursors + count; lane++) {
        const core::EmptyRanges empty =
            lane->skip_empty_ranges ? read_empty_ranges(claim->epoch, lane->lane) : core::EmptyRanges{};
        const ClaimKey shared = sparing ? expected_end(lane->lane) : core::kLastKey;
        bool in_vain = false;
        walk_entries(
            &claim->jobs, lane->next, core::kLastKey,
            [&](const ClaimKey &key) {
                sought = key;
                in_vain = true;
                seek_job(&claim->jobs, *lane, key,
                         sparing ? expected_in_priority(lane->lane, key, shared) : core::kLastKey);
            },
            [&](const ClaimKey &key) { return core::skip_empty(empty, key); },
            [&](const ClaimKey &key) {
                add(*lane, key);
                in_vain = false;
                if (sparing) expect_looks(&claim->jobs.ready, lane->lane, sought);
                return Step::NextPriority;
            });
        if (!in_vain) continue;
        add(*lane, core::kLastKey);
        if (sparing) expect_nothing(lane->lane, sought);
    }
    *cursors = split;
    return found;
}

// How far the cursor's jobs come before those of the next cursor; nullptr: there is none.
ClaimKey limit_of(const Claim &claim, const LaneCursor &cursor, const LaneCursor *next) {
    const core::Micros ageing = claim.queue.priority_ageing;
    if (ageing == 0) return next == nullptr ? core::kLastKey : next->next;
    return next == nullptr ? ClaimKey{INT64_MAX, INT64_MAX, cursor.priority}
                           : core::aged_limit(cursor.priority, next->next, ageing);
}

bool is_used_up(const Claim &claim, const LaneCursor &cursor) {
    return cursor.next == core::kLastKey ||
           (claim.queue.priority_ageing > 0 && cursor.next.priority != cursor.priority);
}

// Takes jobs in their order until claim->wanted have been taken.
void take_in_order(Claim *claim, LaneCursor *cursors, int count) {
    const Later later = {claim->queue.priority_ageing};
    std::make_heap(cursors, cursors + count, later);
    while (count > 0 && claim->count < claim->wanted && !claim->closed) {
        std::pop_heap(cursors, cursors + count, later);
        LaneCursor *first = &cursors[count - 1];
        take_from_lane(claim, first, limit_of(*claim, *first, count > 1 ? &cursors[0] : nullptr));
        if (is_used_up(*claim, *first))
            count--;
        else
            std::push_heap(cursors, cursors + count, later);
    }
}

// Returns whether entries were passed over because of notes.
bool take_across_lanes(Claim *claim, LaneCursor *cursors, int count) {
    claim->wanted = claim->request.batch;
    if (claim->queue.priority_ageing > 0) count = split_by_priority(claim, &cursors, count);
    const int lane_count = count;
    const LaneCursor *end = cursors + count;
    take_in_order(claim, cursors, count);
    jobs_since_refresh += claim->count;
    const bool due = jobs_since_refresh >= kRefreshAfterJobs;
    if (due) jobs_since_refresh = 0;
    for (const LaneCursor *cursor = cursors; cursor < end; cursor++) {
        const bool empty = claim->count == 0 && is_used_up(*claim, *cursor);
        if (!cursor->skip_empty_ranges) continue;
        if (!cursor->seen) {
            // That nothing comes before the first entry of a priority, or behind the last, spares later claims a look.
            if (due && claim->queue.priority_ageing > 0 && cursor->begin < cursor->first_entry)
                refresh_lane(&claim->jobs, cursor->lane, cursor->first_entry, 0, cursor->begin);
            continue;
        }
        if (cursor->limited >= kWorthThrottling)
            throttle_jobs(&claim->jobs, claim->name, claim->queue, cursor->lane, claim->epoch, claim->now);
        if (cursor->suspects >= kWorthThrottling) remember_suspects(&claim->jobs, cursor->lane, claim->epoch);
        if (due || empty || cursor->passed >= kWorthRefreshing)
            refresh_lane(&claim->jobs, cursor->lane, cursor->next, 0, cursor->begin);
        else if (cursor->noted >= kSkippedWorthRefreshing)
            refresh_lane(&claim->jobs, cursor->lane, cursor->next, kRefreshPause, cursor->begin);
    }
    return std::any_of(cursors, cursors + lane_count, [](const LaneCursor &cursor) { return cursor.noted > 0; });
}

// The first key behind `*key` in any of the lanes; false when there is none.
bool next_round_robin_key_of_lanes(Claim *claim, const LaneCursor *lanes, int count, int64 *key) {
    bool found = false;
    int64 first = 0;
    for (int i = 0; i < count; i++) {
        int64 next = *key;
        if (!next_round_robin_key(&claim->jobs, lanes[i].lane, &next)) continue;
        if (!found || next < first) first = next;
        found = true;
    }
    *key = first;
    return found;
}

// Of the jobs of a key that are gone, those that were enqueued together lie in one piece, which later claims are
// spared.
void refresh_from_round_robin_key(Claim *claim, const LaneCursor *cursors, int count) {
    bool refreshed = false;
    for (const LaneCursor *cursor = cursors; cursor < cursors + count; cursor++) {
        if (!cursor->skip_empty_ranges || cursor->passed < kWorthRefreshing) continue;
        refresh_lane(&claim->jobs, cursor->lane, cursor->next, kRefreshPause, cursor->first_entry);
        refreshed = true;
    }
    if (!refreshed) return;
    // What has been taken must not be seen again.
    CommandCounterIncrement();
    renew_snapshot(&claim->jobs);
}

// Takes the first job of one key. Returns whether there was one.
bool take_one_of_round_robin_key(Claim *claim, const LaneCursor *lanes, int count, int64 key) {
    auto *cursors = static_cast<LaneCursor *>(palloc(sizeof(LaneCursor) * count));
    LaneCursor *first = cursors;
    for (int i = 0; i < count; i++) {
        cursors[i] = lanes[i];
        cursors[i].round_robin_key = key;
    }
    if (claim->queue.priority_ageing > 0) count = split_by_priority(claim, &first, count);
    const int before = claim->count;
    claim->wanted = before + 1;
    take_in_order(claim, first, count);
    refresh_from_round_robin_key(claim, first, count);
    if (first != cursors) pfree(first);
    pfree(cursors);
    return claim->count > before;
}

// The next key behind round->at, the first one when there is none. False when all have been visited in vain.
bool go_on(Claim *claim, const LaneCursor *lanes, int count, core::Round *round) {
    int64 key = round->at;
    if (next_round_robin_key_of_lanes(claim, lanes, count, &key)) return core::go_to(round, key);
    key = core::kBeforeFirstRoundRobinKey;
    return next_round_robin_key_of_lanes(claim, lanes, count, &key) && core::go_to(round, key);
}

// The keys take turns, from where the last claim of anybody has left off. Whoever moves the position on to a
// key serves it.
void take_round_robin(Claim *claim, std::string_view name, const LaneCursor *lanes, int count) {
    pg_atomic_uint64 *position = round_robin_position(name);
    uint64 last = pg_atomic_read_u64(position);
    core::Round round = core::begin_round(static_cast<int64>(last));
    int races = 0;
    int in_vain = 0;
    int64 newest =
        core::kBeforeFirstRoundRobinKey;  // of those that have got a job under this snapshot, the last in order
    while (claim->count < claim->request.batch && !claim->closed) {
        CHECK_FOR_INTERRUPTS();
        if (!go_on(claim, lanes, count, &round)) break;
        const uint64 before = last;
        if (!pg_atomic_compare_exchange_u64(position, &last, static_cast<uint64>(round.at)) && races++ < kMaxRaces) {
            round = core::begin_round(static_cast<int64>(last));
            continue;
        }
        last = static_cast<uint64>(round.at);
        if (round.at <= newest) {
            // What has been taken must not be seen again.
            newest = core::kBeforeFirstRoundRobinKey;
            CommandCounterIncrement();
            renew_snapshot(&claim->jobs);
        }
        if (!take_one_of_round_robin_key(claim, lanes, count, round.at)) {
            // The next claim begins with it.
            if (claim->behind_suspect) pg_atomic_compare_exchange_u64(position, &last, before);
            if ((claim->limiter != nullptr || claim->suspects == Suspects::PassedOver) && ++in_vain == kMaxInVain)
                break;
            continue;
        }
        in_vain = 0;
        core::found_job(&round);
        newest = Max(newest, round.at);
    }
    jobs_since_refresh += claim->count;
    if (jobs_since_refresh < kRefreshAfterJobs) return;
    jobs_since_refresh = 0;
    for (int i = 0; i < count; i++)
        if (lanes[i].skip_empty_ranges) refresh_lane(&claim->jobs, lanes[i].lane, core::kLastKey, kRefreshPause);
}

// A snapshot older than the job is the usual fate of a claim in REPEATABLE READ.
void add_serialization_hint(void *) {
    if (geterrcode() == ERRCODE_T_R_SERIALIZATION_FAILURE)
        errhint("Claim in a READ COMMITTED transaction, or begin the transaction with the claim and retry it.");
}

}  // namespace

int claim_jobs(const ClaimRequest &request, std::string_view name, const Queue &found, TimestampTz now,
               ClaimSink *sink) {
    TimestampTz due;
    if (found.limit_count > 0 && !queue_may_run(found, name, now, &due)) return 0;
    // A trigger of somebody's may have the directory read again, or ask for so many queues that this one is forgotten.
    const Queue queue = kept_queue(found);
    ErrorContextCallback context = {error_context_stack, add_serialization_hint, nullptr};
    error_context_stack = &context;
    Limiter limiter;
    Claim claim = {
        request,           name, queue, now,           sink, {},      Datum(0), worker_hash_of(request.worker_id),
        trigger_epoch(),   0,    0,     core::kLatest, true, nullptr, false,    false,
        Suspects::Unasked, false};
    LaneCursors lanes = find_cursors(&claim);
    if (lanes.count > 0) {
        open_for_claim(&claim);
        if (queue.limit_count > 0) {
            open_limiter(&limiter, &claim.jobs, name, queue, now);
            claim.limiter = &limiter;
        }
        if (queue.round_robin) {
            take_round_robin(&claim, name, lanes.items, lanes.count);
            if (claim.count > 0) CommandCounterIncrement();
            renew_snapshot(&claim.jobs);
        }
        // With round_robin: what has no key, since it was inserted behind the triggers' back; and see kMaxInVain.
        const bool noted =
            claim.count < request.batch && !claim.closed && take_across_lanes(&claim, lanes.items, lanes.count);
        if (noted && claim.count < request.batch && !claim.closed) {
            // A note may be wrong: nothing is called empty because of it.
            claim.skip_recent_claims = false;
            // What has been taken must not be seen again.
            CommandCounterIncrement();
            renew_snapshot(&claim.jobs);
            lanes = find_cursors(&claim);
            take_across_lanes(&claim, lanes.items, lanes.count);
        }
        if (claim.limiter != nullptr) close_limiter(&limiter);
    }
    if (claim.is_open) close_jobs(&claim.jobs);
    if (claim.count > 0)
        log_due(core::saturating_add(now, claim.earliest_timeout));
    else if (lanes.skipped)
        ask_for_round(now);
    error_context_stack = context.previous;
    return claim.count;
}

}  // namespace jobq
