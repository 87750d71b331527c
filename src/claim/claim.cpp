// See claim.h. The claim: go to the first place where a job can be, lock what is there, mark it as claimed.
//
// Lane by lane (job/jobs_table.h) in the order of their heads. A row that somebody holds or has changed
// since our snapshot is passed over; a row that we locked is the version that our snapshot saw.
#include "compat/pg.h"

#include "claim/claim.h"
#include "claim/left_jobs.h"
#include "claim/read_ahead.h"
#include "claim/round_robin.h"
#include "claim/take_from_lane.h"
#include "claim/waiters.h"
#include "compat/args.h"
#include "compat/memory.h"
#include "job/transaction_log.h"
#include "lanes/empty_ranges.h"
#include "lanes/lanes.h"
#include "lanes/ready_walk.h"
#include "lanes/refresh.h"
#include "leases/young_leases.h"
#include "limits/limiter.h"
#include "limits/throttle.h"
#include "shmem/database_state.h"

#include <algorithm>

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

// The order of the queue's jobs, as one for heaps.
struct Later {
    core::Micros ageing;
    bool operator()(const LaneCursor &a, const LaneCursor &b) const {
        return ageing == 0 ? b.next < a.next : core::aged_before(b.next, a.next, ageing);
    }
};

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
    cursors->items[cursors->count++] = {lane,  kAnyRoundRobinKey, 0, core::kFirstKey, core::kLastKey, first, 0, 0,
                                        false, skip_empty_ranges, 0};
}

void open_for_claim(Claim *claim) {
    if (claim->is_open) return;
    claim->is_open = true;
    open_jobs(&claim->jobs);
    // The lease begins when the lock is granted, because the claim may have waited for it.
    claim->now = GetCurrentTimestamp();
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
    // The position of the first seek since the last entry was found. That seek may read pages of dead entries, come to
    // an entry of a range that is known to be empty, and make the next seek start after that range. refresh_lane()
    // reads from this position on, so that the dead entries before the range become part of a range, too, and later
    // claims skip them.
    ClaimKey begin = core::kFirstKey;
    const auto add = [&](const LaneCursor &lane, const ClaimKey &key) {
        if (found == room) {
            room *= 2;
            split = static_cast<LaneCursor *>(repalloc_huge(split, sizeof(LaneCursor) * room));
        }
        split[found] = lane;
        split[found].priority = key.priority;
        split[found].begin = begin;
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
                if (!in_vain) begin = key;
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
    uint64 last = round_robin_position(name);
    core::Round round = core::begin_round(static_cast<int64>(last));
    int races = 0;
    int in_vain = 0;
    int64 newest =
        core::kBeforeFirstRoundRobinKey;  // of those that have got a job under this snapshot, the last in order
    while (claim->count < claim->request.batch && !claim->closed) {
        CHECK_FOR_INTERRUPTS();
        if (!go_on(claim, lanes, count, &round)) break;
        const uint64 before = last;
        if (!move_round_robin(name, &last, static_cast<uint64>(round.at)) && races++ < kMaxRaces) {
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
            // It may be the queue's limit, or a suspect before it, that keeps its job: the next claim begins with it.
            if (claim->closed) move_round_robin(name, &last, before);
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

// For a claim that another one relies on.
void look_for_left_jobs(Claim *claim) {
    CommandCounterIncrement();
    open_for_claim(claim);
    renew_snapshot(&claim->jobs);
    const LaneCursors lanes = find_cursors(claim);
    wake_for_left_jobs(claim, lanes.items, lanes.count);
}

// Claims under these settings, and sets *count. False, with no job taken, if the settings have changed in the meantime.
// `again`: they were read after that had happened, when the transaction had the table lock and a number, so they hold.
bool claim_under(const Queue &found, const ClaimRequest &request, std::string_view name, TimestampTz now,
                 ClaimSink *sink, bool again, int *count) {
    TimestampTz due;
    *count = 0;
    if (found.paused || (found.limit_count > 0 && !queue_may_run(found, name, now, &due))) {
        leave_after_claim();
        end_claim(request.filter, 0);
        return true;
    }
    // A trigger of somebody's may have the directory read again, or ask for so many queues that this one is forgotten.
    const Queue queue = kept_queue(found);
    ErrorContextCallback context = {error_context_stack, add_serialization_hint, nullptr};
    error_context_stack = &context;
    Limiter limiter;
    Claim claim = {request, name, queue, now, sink, worker_hash_of(request.worker_id), trigger_epoch()};
    if (again) claim.xid = FullTransactionIdGetDatum(GetTopFullTransactionId());
    LaneCursors lanes = find_cursors(&claim);
    if (lanes.count > 0) {
        open_for_claim(&claim);
        if (queue.limit_count > 0) {
            open_limiter(&limiter, &claim.jobs, name, queue, claim.now);
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
    if (!claim.outdated) {
        if (leave_after_claim())
            look_for_left_jobs(&claim);
        else if (claim.count > 0 && (claim.count == request.batch || claim.closed))
            wake_for_left_jobs(&claim, lanes.items, lanes.count);
        end_claim(request.filter, claim.count);
    }
    if (claim.is_open) close_jobs(&claim.jobs);
    if (claim.count > 0)
        log_due(core::saturating_add(claim.now, claim.earliest_timeout));
    else if (lanes.skipped)
        ask_for_round(now);
    error_context_stack = context.previous;
    *count = claim.count;
    return !claim.outdated;
}

}  // namespace

int claim_jobs(const ClaimRequest &request, std::string_view name, TimestampTz now, ClaimSink *sink) {
    int count;
    begin_claim(name, view(request.worker_id));
    if (!claim_under(*find_queue(name), request, name, now, sink, false, &count))
        claim_under(*find_queue(name), request, name, now, sink, true, &count);
    return count;
}

}  // namespace jobq
