// See claim.h. A claim scans the index, beginning at the first entry that can belong to a claimable job. To take a job,
// the claim locks the job's row and marks the job as claimed.
//
// The claim takes jobs lane by lane (row/jobs_table.h), in the order of the first job of each lane. It skips rows that
// another transaction has locked or has changed since the claim's snapshot, so the row version that it locks is always
// the version that its snapshot shows.
#include "compat/pg.h"

#include "claim/claim.h"
#include "claim/claim_part.h"
#include "claim/left_jobs.h"
#include "claim/read_ahead.h"
#include "claim/round_robin.h"
#include "claim/take_from_lane.h"
#include "compat/args.h"
#include "compat/memory.h"
#include "compat/queue_name.h"
#include "lanes/empty_ranges.h"
#include "lanes/lanes.h"
#include "lanes/ready_walk.h"
#include "lanes/refresh.h"
#include "leases/young_leases.h"
#include "limits/limiter.h"
#include "limits/throttle.h"
#include "log/transaction_log.h"
#include "shmem/database_state.h"
#include "waiters/claims.h"

#include <algorithm>

namespace jobq {

namespace {

using core::ClaimKey;

// Number of entries of a lane that a claim must skip because of notes (LaneCursor::noted) before it reads the lane
// again to find empty ranges. Even then, the claim does not read a lane that was read less than kRefreshPause ago. The
// number is larger than kWorthRefreshing for two reasons. First, skipping an entry because of a note costs less than
// passing a dead entry. Second, a skipped entry cannot become part of an empty range until the claim that left the note
// has ended.
constexpr int kSkippedWorthRefreshing = 12;
// Number of claimed jobs after which the session looks for empty ranges in the lanes of its current claim, even if that
// claim has passed few dead entries. This is necessary because scans do not count the entries that are already marked
// as dead in the index.
constexpr int kRefreshAfterJobs = 128;
int jobs_since_refresh = 0;
// Maximum number of attempts to move the round-robin position. An attempt fails if another claim has moved the position
// in the meantime. After the last failure, the claim takes a job without moving the position.
constexpr int kMaxRaces = 64;
// Number of keys without a claimable job that a round-robin claim visits before it stops visiting keys in turn and
// takes the first job of any key that has room. A key has no claimable job if, for example, its limit is full or it has
// only suspects or expired jobs.
constexpr int kMaxInVain = 256;

// Orders lanes for the heap functions of the standard library, so that the lane with the first job is on top.
struct Later {
    core::Micros ageing;
    bool operator()(const LaneCursor &a, const LaneCursor &b) const {
        return ageing == 0 ? b.next < a.next : core::aged_before(b.next, a.next, ageing);
    }
};

// The lanes from which the worker may take jobs, each with the earliest position at which the lane can have a job.
struct LaneCursors {
    LaneCursor *items;
    int count;
    bool skipped;  // true if empty ranges let the claim skip a part of some lane
};

// Adds a cursor for the lane, unless the lane is known to be empty. The caller guarantees that the lane has no job
// before `first`.
void add_cursor(const Claim &claim, LaneCursors *cursors, int64 lane, ClaimKey first) {
    const bool skip_empty_ranges = may_skip_empty_ranges(lane);
    if (skip_empty_ranges) {
        const ClaimKey possible = first_possible_key(claim.epoch, lane);
        cursors->skipped |= !(possible == core::kFirstKey);
        if (first < possible) first = possible;
    }
    if (first == core::kLastKey) return;
    cursors->items[cursors->count++] = {.lane = lane, .next = first, .skip_empty_ranges = skip_empty_ranges};
}

void open_for_claim(Claim *claim) {
    if (claim->is_open) return;
    claim->is_open = true;
    open_jobs(&claim->jobs);
    // The lease begins when the lock on the table is granted, because the claim might have waited for the lock.
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

// Replaces each lane's cursor with one cursor per priority, which begins at the first entry of that priority. If the
// search for the next priority of a lane finds no entry, adds a cursor at kLastKey, so that the searched part of the
// index can be recorded as empty. Skips ranges that are known to be empty.
int split_by_priority(Claim *claim, LaneCursor **cursors, int count) {
    int room = count * 4, found = 0;
    auto *split = allocate_array<LaneCursor>(static_cast<uint64>(room));
    const bool sparing = reads_ahead(*claim);
    ClaimKey sought = core::kFirstKey;
    // Key at which the first seek after the previous found entry starts. refresh_lane() reads from this key on, not
    // from the start of a later seek, because the pages between this key and the next range that is known to be empty
    // might contain many dead entries. These entries then become part of an empty range, so that later claims skip
    // them.
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

// Returns the key up to which jobs are taken from `cursor`. After this key, the next job of `next` comes first in the
// order of the queue. `next` is nullptr if there is no other cursor.
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

// Takes jobs from the cursors' lanes, in the order of the queue, until claim->count reaches claim->wanted.
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

// Takes jobs from all lanes, in the order of the queue. Returns true if it skipped entries because of notes about
// recent claims.
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
        const bool empty = claim->count == 0 && !cursor->full && is_used_up(*claim, *cursor);
        if (!cursor->skip_empty_ranges) continue;
        if (!cursor->seen) {
            // Records the range before the first entry of the priority as empty, so that later claims skip this range.
            // For a cursor at kLastKey, the range extends to the end of the lane.
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

// Sets `*key` to the first key after `*key` in any of the lanes. Returns false if no lane has such a key.
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

// Makes later claims skip the index entries of jobs that no longer exist. If jobs of one key were enqueued together,
// their entries are adjacent and become one empty range.
void refresh_from_round_robin_key(Claim *claim, const LaneCursor *cursors, int count) {
    bool refreshed = false;
    for (const LaneCursor *cursor = cursors; cursor < cursors + count; cursor++) {
        if (!cursor->skip_empty_ranges || cursor->passed < kWorthRefreshing) continue;
        refresh_lane(&claim->jobs, cursor->lane, cursor->next, kRefreshPause, cursor->first_entry);
        refreshed = true;
    }
    if (!refreshed) return;
    // Takes a new snapshot, because the next scan must not see the jobs that this claim has taken.
    CommandCounterIncrement();
    renew_snapshot(&claim->jobs);
}

// Removes the lanes in which the claim has found that their kind has no room.
void remove_full_lanes(const LaneCursor *cursors, int count, LaneCursor *lanes, int *lane_count) {
    for (const LaneCursor *cursor = cursors; cursor < cursors + count; cursor++) {
        if (!cursor->full) continue;
        const auto is_full = [&](const LaneCursor &lane) { return lane.lane == cursor->lane; };
        *lane_count = static_cast<int>(std::remove_if(lanes, lanes + *lane_count, is_full) - lanes);
    }
}

// Takes the first job of one round-robin key. Returns false if the key had no job to take. Removes the lanes whose kind
// has no room.
bool take_one_of_round_robin_key(Claim *claim, LaneCursor *lanes, int *lane_count, int64 key) {
    int count = *lane_count;
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
    remove_full_lanes(first, count, lanes, lane_count);
    if (first != cursors) pfree(first);
    pfree(cursors);
    return claim->count > before;
}

// Moves *round to the round-robin key after round->at, or to the first key if round->at is the last key. Returns false
// if all keys have been visited since the last job was found.
bool go_on(Claim *claim, const LaneCursor *lanes, int count, core::Round *round) {
    int64 key = round->at;
    if (next_round_robin_key_of_lanes(claim, lanes, count, &key)) return core::go_to(round, key);
    key = core::kBeforeFirstRoundRobinKey;
    return next_round_robin_key_of_lanes(claim, lanes, count, &key) && core::go_to(round, key);
}

// Takes jobs from the round-robin keys in turn, beginning after the key that was served last by any session. The claim
// that moves the shared position to a key serves that key.
void take_round_robin(Claim *claim, std::string_view name, const LaneCursor *all, int all_count) {
    auto *lanes = static_cast<LaneCursor *>(palloc(sizeof(LaneCursor) * all_count));
    std::copy(all, all + all_count, lanes);
    int count = all_count;
    uint64 last = round_robin_position(name);
    core::Round round = core::begin_round(static_cast<int64>(last));
    int races = 0;
    int in_vain = 0;
    int64 newest =
        // The highest key from which a job was taken under the current snapshot.
        core::kBeforeFirstRoundRobinKey;
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
            // Takes a new snapshot, because the next scan must not see the jobs that this claim has taken.
            newest = core::kBeforeFirstRoundRobinKey;
            CommandCounterIncrement();
            renew_snapshot(&claim->jobs);
        }
        if (!take_one_of_round_robin_key(claim, lanes, &count, round.at)) {
            // If the claim must not take any more jobs (Claim::closed), or no lane has room, moves the position back,
            // so that the next claim begins with this key, which might still have a job.
            if (claim->closed || count == 0) move_round_robin(name, &last, before);
            if ((claim->limiter != nullptr || claim->suspects == Suspects::PassedOver || claim->jobs.met_expired) &&
                ++in_vain == kMaxInVain)
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
    for (int i = 0; i < all_count; i++)
        if (all[i].skip_empty_ranges) refresh_lane(&claim->jobs, all[i].lane, core::kLastKey, kRefreshPause);
}

// Adds a hint to serialization failures. If a claim fails in REPEATABLE READ, the usual cause is that a job has changed
// since the snapshot was taken.
void add_serialization_hint(void *) {
    if (geterrcode() == ERRCODE_T_R_SERIALIZATION_FAILURE)
        errhint(
            "Claim in a READ COMMITTED transaction, or make the claim the first statement of the transaction and retry "
            "the transaction.");
}

// Wakes the next worker if there are claimable jobs left. Called when another claim has relied on this claim to check
// for remaining jobs. Returns the result of wake_for_left_jobs().
bool look_for_left_jobs(Claim *claim) {
    CommandCounterIncrement();
    open_for_claim(claim);
    renew_snapshot(&claim->jobs);
    const LaneCursors lanes = find_cursors(claim);
    return wake_for_left_jobs(claim, lanes.items, lanes.count);
}

// Claims jobs under the settings in `found`, and sets *count to the number of claimed jobs. Returns false, without
// taking a job, if the settings have changed since they were read. `again` means that an earlier call returned false
// and the settings were read again after that call. Such settings are current, because the transaction already held the
// table lock and had a transaction ID when it read them. `whole` is nullptr if the claim takes jobs from one queue
// only.
bool claim_under(const Queue &found, const ClaimRequest &request, std::string_view name, TimestampTz now,
                 ClaimSink *sink, bool again, WholeClaim *whole, int *count) {
    TimestampTz due;
    *count = 0;
    if (found.paused || (found.limit_count > 0 && !queue_may_run(found, name, now, &due))) {
        if (whole == nullptr) {
            leave_after_claim({&name, 1});
            end_claim(request.filter, 0, {&name, 1});
        }
        return true;
    }
    // Copies the settings, because a user-defined trigger might make the session reload its queue directory, or look up
    // so many queues that the directory evicts this queue.
    const Queue queue = found;
    ErrorContextCallback context = {error_context_stack, add_serialization_hint, nullptr};
    error_context_stack = &context;
    Limiter limiter;
    Claim claim = {.request = request,
                   .name = name,
                   .queue = queue,
                   .now = now,
                   .sink = sink,
                   .worker_hash = worker_hash_of(request.worker_id),
                   .epoch = trigger_epoch()};
    if (again) claim.xid = FullTransactionIdGetDatum(GetTopFullTransactionId());
    // A suspect must be the only job of its claim.
    if (whole != nullptr && whole->count > 0) claim.suspects = Suspects::PassedOver;
    claim.only_suspect = whole != nullptr && whole->only_suspect;
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
        // In a queue with round_robin, this call takes the jobs that take_round_robin() has left: jobs that have no
        // round-robin key because they were inserted with triggers disabled, and jobs that take_round_robin() did not
        // reach because of kMaxInVain.
        const bool noted =
            claim.count < request.batch && !claim.closed && take_across_lanes(&claim, lanes.items, lanes.count);
        if (noted && claim.count < request.batch && !claim.closed) {
            // Skipped jobs might still be claimable, because notes about recent claims can be wrong. So the claim scans
            // again and ignores the notes. A note never causes a range to be recorded as empty.
            claim.skip_recent_claims = false;
            // Takes a new snapshot, because the next scan must not see the jobs that this claim has taken.
            CommandCounterIncrement();
            renew_snapshot(&claim.jobs);
            lanes = find_cursors(&claim);
            take_across_lanes(&claim, lanes.items, lanes.count);
        }
        if (claim.limiter != nullptr) close_limiter(&limiter);
    }
    const bool left_jobs = claim.count > 0 && (claim.count == request.batch || claim.closed);
    if (whole != nullptr) {
        whole->took_suspect = claim.took_suspect;
        whole->sink_is_full = claim.sink_is_full;
        const bool left_suspect = claim.passed_suspect && whole->count > 0;
        if (left_suspect) copy_queue(whole->suspect, name);
        whole->left_jobs = left_jobs || left_suspect;
    } else if (!claim.outdated) {
        if (leave_after_claim({&name, 1}))
            look_for_left_jobs(&claim);
        else if (left_jobs)
            wake_for_left_jobs(&claim, lanes.items, lanes.count);
        end_claim(request.filter, claim.count, {&name, 1});
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

// Calls body(claim) with a claim that only looks for jobs of the queue. Returns false, without calling it, if no job of
// the queue can start.
template <typename Body>
bool look_into_queue(const ClaimRequest &request, std::string_view name, TimestampTz now, Body body) {
    const Queue *found = find_queue(name);
    TimestampTz due;
    if (found->paused || (found->limit_count > 0 && !queue_may_run(*found, name, now, &due))) return false;
    const Queue queue = *found;
    Limiter limiter = {};
    Claim claim = {.request = request,
                   .name = name,
                   .queue = queue,
                   .now = now,
                   .sink = nullptr,
                   .worker_hash = 0,
                   .epoch = trigger_epoch()};
    if (queue.limit_count > 0) claim.limiter = &limiter;
    const bool result = body(&claim);
    if (claim.is_open) close_jobs(&claim.jobs);
    return result;
}

}  // namespace

int claim_part(const ClaimRequest &request, std::string_view name, TimestampTz now, ClaimSink *sink,
               WholeClaim *whole) {
    int count;
    if (!claim_under(*find_queue(name), request, name, now, sink, false, whole, &count))
        claim_under(*find_queue(name), request, name, now, sink, true, whole, &count);
    return count;
}

bool find_next_run_at(const ClaimRequest &request, std::string_view name, TimestampTz now, core::Micros *run_at) {
    return look_into_queue(request, name, now, [&](Claim *claim) {
        const LaneCursors lanes = find_cursors(claim);
        if (lanes.count == 0) return false;
        open_for_claim(claim);
        core::ClaimKey key;
        if (!find_first_job(claim, lanes.items, lanes.count, &key)) return false;
        *run_at = key.run_at;
        return true;
    });
}

bool wake_for_jobs_left_in(const ClaimRequest &request, std::string_view name, TimestampTz now) {
    return look_into_queue(request, name, now, [](Claim *claim) { return look_for_left_jobs(claim); });
}

int claim_jobs(const ClaimRequest &request, std::string_view name, TimestampTz now, ClaimSink *sink) {
    begin_claim({&name, 1}, view(request.worker_id));
    return claim_part(request, name, now, sink, nullptr);
}

}  // namespace jobq
