// See publish.h for what callers rely on.
#include "pg/pg.h"

#include "core/stable_hash.h"
#include "settings.h"
#include "shared/claimed.h"
#include "shared/job_waiters.h"
#include "shared/limits.h"
#include "shared/marks.h"
#include "shared/memory.h"
#include "shared/notices.h"
#include "shared/parked.h"
#include "shared/publish.h"
#include "shared/slots.h"
#include "shared/unblock.h"
#include "shared/waiters.h"
#include "shared/watched.h"

namespace jobq {

namespace {

// Jobs of one lane and priority that become claimable: all keys lie between first and last.
struct ReadyJobs {
    int64 lane;
    core::ClaimKey first, last;
    int64 count;
    uint16 next;               // in its bucket: index + 1, 0: none
    core::LaneTraits *traits;  // nullptr: the queue's sleepers look for themselves
    char queue[NAMEDATALEN];   // zero padded
};

// More of them than this are not told apart any more.
constexpr int kMaxReady = 4096;
constexpr int kReadyBuckets = 1024;

// So many of them are offered to the sleepers one by one.
constexpr int kMaxDescribed = 256;

// What this session's transaction publishes when it commits.
struct Pending {
    bool any;
    bool extension;  // jobq.announce() was called
    bool databases;  // pg_database changed
    TimestampTz due;
    TimestampTz lease_deadline;  // of the jobs that are watched from now on
    Horizon horizon;             // what a look at all watched jobs has found
    uint64 horizon_version;      // 0: there was none
    SubTransactionId looked_in;
    ReadyJobs *ready;  // in TopTransactionContext
    int ready_count;
    int ready_room;
    bool ready_anywhere;      // more than could be remembered
    bool back;                // some of them may have been claimed before
    bool claims;              // it has claimed jobs
    bool look_anywhere;       // the same of what follows
    bool settings;            // of one queue changed
    char queue[NAMEDATALEN];  // which, zero padded
};
constexpr Pending nothing_pending() {
    Pending nothing = {};
    nothing.due = nothing.lease_deadline = kNothingDue;
    return nothing;
}
constexpr Pending kNothingPending = nothing_pending();
Pending pending = kNothingPending;
uint16 ready_buckets[kReadyBuckets];  // of its jobs that become claimable, by lane and priority: index + 1, 0: none
// The jobs that finish with this session's transaction. Apart from the rest: most transactions that complete jobs
// publish nothing else, and a completion shall cost one store here.
constexpr int kMaxFinished = 4096;
struct Finished {
    int count;
    bool anywhere;  // more than could be remembered, or nobody knows which
    int64 jobs[kMaxFinished];
    bool completed[kMaxFinished];
};
Finished finished = {};

void forget_finished() {
    finished.count = 0;
    finished.anywhere = false;
}

// Jobs that depend on those that have finished. A completion concerns only who watches the job, any other end all that
// depend on it.
void unblock_dependents() {
    if (!dependencies_noted()) return;
    if (finished.anywhere) {
        unblock_now(nullptr, 0, bit_of(Blocker::Dependency));
        return;
    }
    constexpr int kAtOnce = 64;
    Unblocked told[kAtOnce];
    int count = 0;
    for (int i = 0; i < finished.count; i++) {
        if (finished.completed[i] && !job_is_watched(finished.jobs[i])) continue;
        told[count++] = {finished.jobs[i], kNoJob, Blocker::Dependency};
        if (count < kAtOnce) continue;
        unblock_now(told, count, 0);
        count = 0;
    }
    if (count > 0) unblock_now(told, count, 0);
}

void publish_ready(const Pending &told) {
    if (told.ready_anywhere) forget_marks();
    if (told.back || told.ready_anywhere) forget_claimed();
    for (int i = 0; i < told.ready_count; i++)
        publish_keys(told.ready[i].lane, told.ready[i].first, told.ready[i].last);
    const bool parked = anything_parked(), suspects = suspect_ranges_expected();
    if (!parked && !suspects) return;
    for (int i = 0; i < told.ready_count; i++) {
        const auto &ready = told.ready[i];
        if (parked) publish_keys(parked_lane(ready.lane), ready.first, ready.last);
        if (suspects) publish_keys(suspect_lane(ready.lane), ready.first, ready.last);
    }
}

void publish_horizon(const Pending &told, Slot *slot) {
    if (told.lease_deadline == kNothingDue && told.horizon_version == 0) return;
    LWLockAcquire(slots_lock(), LW_EXCLUSIVE);
    if (told.horizon_version != 0 && slot->horizon_version == told.horizon_version) slot->horizon = told.horizon;
    if (told.lease_deadline < slot->horizon.deadline) slot->horizon.deadline = told.lease_deadline;
    if (told.lease_deadline != kNothingDue) slot->horizon_version = ++shared_state()->horizon_versions;
    LWLockRelease(slots_lock());
}

// What the database's worker does next.
void publish_round(const Pending &told) {
    // While jobs are unfinished the worker comes round at the tick interval, whatever the deadlines.
    const TimestampTz now = GetCurrentTransactionStopTimestamp();
    const TimestampTz round = now + static_cast<TimestampTz>(settings.tick_interval_ms) * 1000;
    const TimestampTz due = told.extension ? now : Min(told.due, round);
    for (;;) {
        Slot *slot = session_slot();
        if (slot == nullptr) return;
        if (told.extension) {
            LWLockAcquire(slots_lock(), LW_EXCLUSIVE);
            slot->extension = Presence::Unknown;
            slot->not_before = 0;
            LWLockRelease(slots_lock());
        }
        publish_horizon(told, slot);
        publish_due(slot, due);
        // The launcher may have given the slot away meanwhile; it looks at next_due after it has done so.
        if (pg_atomic_read_u32(&slot->database) == MyDatabaseId) return;
    }
}

void publish_databases() {
    pg_atomic_write_u32(&shared_state()->databases_changed, 1);
    wake_launcher();
}

bool same_queue(const char *a, const char *b) { return memcmp(a, b, NAMEDATALEN) == 0; }

void post_notices(const Pending &told) {
    Slot *slot = settings.notify && settings.enabled ? session_slot() : nullptr;
    if (slot == nullptr) return;
    if (told.ready_anywhere || told.look_anywhere) post_notice_of_anything(slot);
    if (told.settings) post_notice(slot, told.queue);
    for (int i = 0; i < told.ready_count; i++)
        if (i == 0 || !same_queue(told.ready[i].queue, told.ready[i - 1].queue)) post_notice(slot, told.ready[i].queue);
}

void wake_for(const Pending &told) {
    const char *looks = nullptr;
    for (int i = 0; i < told.ready_count; i++) {
        const ReadyJobs &ready = told.ready[i];
        if (ready.traits != nullptr) {
            wake_waiters(ready.queue, *ready.traits, ready.count);
        } else if (looks == nullptr || !same_queue(looks, ready.queue)) {
            looks = ready.queue;
            let_waiters_look(looks);
        }
    }
    if (told.settings) let_waiters_look(told.queue);
    const bool anywhere = told.ready_anywhere || told.look_anywhere;
    if (anywhere) let_all_waiters_look();
    if (told.ready_count > 0 || told.settings || anywhere) post_notices(told);
}

// In single-user mode there is nobody to tell.
bool can_publish() { return shared_memory_ready() && IsUnderPostmaster; }

uint16 *ready_bucket(int64 lane, int16 priority) {
    return &ready_buckets[core::mix64(static_cast<uint64>(lane) + static_cast<uint64>(priority)) % kReadyBuckets];
}

// The entry of a lane and priority; nullptr: none.
ReadyJobs *find_ready(int64 lane, int16 priority) {
    for (int i = *ready_bucket(lane, priority); i != 0; i = pending.ready[i - 1].next) {
        ReadyJobs *known = &pending.ready[i - 1];
        if (known->lane == lane && known->first.priority == priority) return known;
    }
    return nullptr;
}

void forget_pending() {
    for (int i = 0; i < pending.ready_count; i++)
        *ready_bucket(pending.ready[i].lane, pending.ready[i].first.priority) = 0;
    pending = kNothingPending;
}

void copy_queue(char *to, std::string_view queue) {
    memset(to, 0, NAMEDATALEN);
    memcpy(to, queue.data(), Min(queue.size(), NAMEDATALEN - 1));
}

// Room for one more entry; nullptr when there are too many.
ReadyJobs *add_ready() {
    if (pending.ready_count == kMaxReady) {
        pending.ready_anywhere = true;
        return nullptr;
    }
    if (pending.ready_count == pending.ready_room) {
        const int room = Max(pending.ready_room * 2, 8);
        const Size size = sizeof(ReadyJobs) * room;
        pending.ready = static_cast<ReadyJobs *>(
            pending.ready == nullptr ? MemoryContextAlloc(TopTransactionContext, size) : repalloc(pending.ready, size));
        pending.ready_room = room;
    }
    return &pending.ready[pending.ready_count++];
}

}  // namespace

void publish_due_at_commit(TimestampTz when) {
    if (!can_publish()) return;
    pending.any = true;
    if (when < pending.due) pending.due = when;
}

void publish_lease_deadline_at_commit(TimestampTz when) {
    publish_due_at_commit(when);
    if (when < pending.lease_deadline) pending.lease_deadline = when;
}

void ask_for_round(TimestampTz now) {
    Slot *slot = known_session_slot();
    if (slot == nullptr) return;
    slot->relied_on = now;
    publish_due(slot, now + static_cast<TimestampTz>(settings.tick_interval_ms) * 1000);
}

Horizon horizon() {
    const Slot *slot = known_session_slot();
    if (slot == nullptr) return kUnknownHorizon;
    LWLockAcquire(slots_lock(), LW_SHARED);
    Horizon known = slot->horizon;
    LWLockRelease(slots_lock());
    known.deadline = Min(known.deadline, pending.lease_deadline);
    return known;
}

uint64 begin_horizon_scan() {
    if (IsolationUsesXactSnapshot() || !can_publish()) return 0;
    Slot *slot = session_slot();
    if (slot == nullptr) return 0;
    LWLockAcquire(slots_lock(), LW_EXCLUSIVE);
    slot->horizon_version = ++shared_state()->horizon_versions;
    slot->horizon = kUnknownHorizon;
    const uint64 version = slot->horizon_version;
    LWLockRelease(slots_lock());
    return version;
}

void publish_horizon_at_commit(uint64 version, const Horizon &found) {
    if (version == 0) return;
    pending.any = true;
    pending.horizon_version = version;
    pending.horizon = found;
    pending.looked_in = GetCurrentSubTransactionId();
}

bool publish_ready_at_commit(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new) {
    if (!can_publish()) return false;
    pending.any = true;
    if (!is_new) pending.back = true;
    if (pending.ready_anywhere) return false;
    if (ReadyJobs *known = find_ready(lane, key.priority)) {
        if (key < known->first) known->first = key;
        if (known->last < key) known->last = key;
        known->count++;
        return false;
    }
    ReadyJobs *added = add_ready();
    if (added == nullptr) return false;
    uint16 *bucket = ready_bucket(lane, key.priority);
    *added = {lane, key, key, 1, *bucket, nullptr, {}};
    *bucket = static_cast<uint16>(pending.ready_count);
    copy_queue(added->queue, queue);
    return pending.ready_count <= kMaxDescribed;
}

void describe_ready_lane(const core::LaneTraits &traits) {
    if (pending.ready_count == 0) return;
    auto *copy = static_cast<core::LaneTraits *>(MemoryContextAlloc(TopTransactionContext, sizeof(core::LaneTraits)));
    *copy = traits;
    pending.ready[pending.ready_count - 1].traits = copy;
}

void publish_claim_at_abort() {
    if (can_publish()) pending.claims = true;
}

bool has_unpublished_jobs(int64 lane) {
    if (pending.ready_anywhere) return true;
    for (int i = 0; i < pending.ready_count; i++)
        if (pending.ready[i].lane == lane) return true;
    return false;
}

void publish_settings_at_commit(std::string_view queue) {
    if (!can_publish()) return;
    pending.any = true;
    char name[NAMEDATALEN];
    copy_queue(name, queue);
    if (queue.empty() || (pending.settings && !same_queue(name, pending.queue))) {
        pending.look_anywhere = true;
        return;
    }
    pending.settings = true;
    memcpy(pending.queue, name, sizeof(name));
}

void publish_finished_at_commit(int64 job, bool completed) {
    if (!can_publish()) return;
    if (finished.count < kMaxFinished) {
        finished.completed[finished.count] = completed;
        finished.jobs[finished.count++] = job;
    } else {
        finished.anywhere = true;
    }
}

void publish_finished_anywhere_at_commit() {
    if (can_publish()) finished.anywhere = true;
}

void publish_prepared(PreparedEffects effects) {
    const auto has = [effects](PreparedEffects wanted) { return (effects & wanted) != 0; };
    Pending told = kNothingPending;
    told.any = has(kDeadlines | kReadyJobs | kLooks | kExtensionChanged);
    if (told.any) told.due = GetCurrentTimestamp();
    // Running jobs may have come that the rescue must look at.
    if (has(kDeadlines)) told.lease_deadline = DT_NOBEGIN;
    told.ready_anywhere = has(kReadyJobs);
    told.look_anywhere = has(kLooks);
    told.extension = has(kExtensionChanged);
    if (told.any) {
        publish_ready(told);
        publish_round(told);
    }
    if (has(kDatabasesChanged)) publish_databases();
    if (has(kClaimedJobs)) forget_claimed();
    if (has(kClaimedJobs | kFreedSlots)) forget_slots();
    wake_for(told);
    if (has(kClaimedJobs | kFreedSlots)) let_all_waiters_look();
    if (has(kFinishedJobs)) {
        if (dependencies_noted()) unblock_now(nullptr, 0, bit_of(Blocker::Dependency));
        let_all_job_waiters_look();
    }
    if (has(kUnblockedJobs)) unblock_anything();
}

void announce_extension_at_commit() {
    if (!can_publish()) return;
    pending.any = true;
    pending.extension = true;
}

void announce_databases_at_commit() {
    if (!can_publish()) return;
    pending.databases = true;
}

void publish_claimable() {
    if (pending.any) publish_ready(pending);
}

void publish_deadlines() {
    if (pending.any) publish_round(pending);
    if (pending.databases) publish_databases();
}

void wake_for_published() {
    if (pending.any) wake_for(pending);
    if (pending.any || pending.claims || pending.databases) forget_pending();
}

void wake_for_finished() {
    if (finished.count == 0 && !finished.anywhere) return;
    unblock_dependents();
    if (finished.anywhere)
        let_all_job_waiters_look();
    else
        wake_job_waiters(finished.jobs, finished.count);
    forget_finished();
}

void keep_published() {
    PreparedEffects effects = 0;
    if (pending.any) effects |= kDeadlines;
    if (pending.ready_count > 0 || pending.ready_anywhere) effects |= kReadyJobs;
    if (pending.settings || pending.look_anywhere) effects |= kLooks;
    if (finished.count > 0 || finished.anywhere) effects |= kFinishedJobs;
    if (pending.extension) effects |= kExtensionChanged;
    if (pending.databases) effects |= kDatabasesChanged;
    if (pending.claims) effects |= kClaimedJobs;
    keep_effects(effects);
    forget_pending();
    forget_finished();
}

void forget_published() {
    if (pending.claims) forget_claimed();
    forget_pending();
    forget_finished();
}

void forget_published_of_savepoint() {
    if (pending.claims) forget_claimed();
    // Seen without jobs that run again now. One that began after the look leaves what the look saw.
    if (GetCurrentSubTransactionId() <= pending.looked_in) pending.horizon_version = 0;
}

}  // namespace jobq
