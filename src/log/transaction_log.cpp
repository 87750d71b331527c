// See transaction_log.h and logged.h.
#include "compat/pg.h"

#include "compat/settings.h"
#include "core/stable_hash.h"
#include "log/logged.h"
#include "log/transaction_log.h"
#include "shmem/memory.h"

#include <algorithm>

namespace jobq {

namespace {

// The log of the current transaction. An empty log is all zero, so that the operating system allocates no memory for it
// in sessions that never write to it.
TransactionLog log = {};

bool has_readers() { return shared_memory_ready() && IsUnderPostmaster; }

// ---- Numbers of jobs.

// Returns the current subtransaction's changes to a queue, or nullptr if there is no room to count them.
core::Counts *counts_at(const char *name, int level) {
    // The queue is usually the same as in the previous call.
    if (log.changes.count > 0) {
        QueueChange *last = log.changes.end() - 1;
        if (last->level == level && same_queue(last->queue, name)) return &last->counts;
    }
    const uint32 hash = hash_of_queue(name);
    QueueChange *change = log.changes.find(
        hash, [&](const QueueChange &known) { return known.level == level && same_queue(known.queue, name); });
    if (change == nullptr) {
        change = log.changes.add(hash, {{}, hash, level, {}});
        if (change == nullptr) {
            recount_at_commit();
            return nullptr;
        }
        memcpy(change->queue, name, sizeof(QueueName));
    }
    return &change->counts;
}

core::Counts *counts_of(std::string_view queue) {
    QueueName name;
    if (!has_readers() || !copy_queue(name, queue)) return nullptr;
    return counts_at(name, GetCurrentTransactionNestLevel());
}

void pop_changes(int level) {
    while (log.changes.count > 0 && log.changes.items[log.changes.count - 1].level >= level) log.changes.pop();
}

int index_of(core::JobStatus status) { return static_cast<int>(status); }

int64 &events(core::Counts *counts, core::CountedEvent event) { return counts->events[static_cast<int>(event)]; }

// ---- Queues and lanes.

// Returns the queue's entry, or nullptr if there are too many queues.
// Returns the entry of the queue, or nullptr if there are too many queues.
LoggedQueue *queue_entry(std::string_view queue) {
    QueueName name;
    copy_queue(name, queue);
    const uint32 hash = hash_of_queue(name);
    LoggedQueue *known =
        log.queues.find(hash, [&](const LoggedQueue &logged) { return same_queue(logged.name, name); });
    if (known != nullptr) return known;
    LoggedQueue *added = log.queues.add(hash, {});
    if (added != nullptr) memcpy(added->name, name, sizeof(QueueName));
    return added;
}

LoggedQueue *logged_queue(std::string_view queue) {
    LoggedQueue *logged = queue_entry(queue);
    if (logged != nullptr) logged->changed = true;
    return logged;
}

QueueIndex index_of(const LoggedQueue *queue) {
    return queue == nullptr ? kNoQueue : static_cast<QueueIndex>(queue - log.queues.items);
}

uint64 hash_of_lane(int64 lane, int16 priority) {
    return core::mix64(static_cast<uint64>(lane) + static_cast<uint64>(priority));
}

// ---- Slots.

// Appends the key to the log and returns its position in the log, or -1 if there is no room.
int32 keep_key(std::string_view key) {
    if (key.size() > core::kMaxConcurrencyKeyBytes || log.key_bytes + key.size() > sizeof(log.keys)) return -1;
    std::copy(key.begin(), key.end(), log.keys + log.key_bytes);
    log.key_bytes += static_cast<int>(key.size());
    return log.key_bytes - static_cast<int32>(key.size());
}

// Returns the slot's entry, or nullptr if there are too many slots.
LoggedSlot *logged_slot(std::string_view queue, std::string_view key, int64 slot) {
    const QueueIndex in = index_of(logged_queue(queue));
    const uint64 hash = core::mix64(static_cast<uint64>(slot));
    LoggedSlot *known = log.slots.find(hash, [&](const LoggedSlot &logged) {
        return logged.slot == slot && logged.queue == in && log.key_of(logged) == key;
    });
    if (known != nullptr) return known;
    const int32 begin = in == kNoQueue ? -1 : keep_key(key);
    if (begin < 0) return nullptr;
    return log.slots.add(hash, {.slot = slot,
                                .seq = 0,
                                .ticket = 0,
                                .key_begin = begin,
                                .key_bytes = static_cast<uint8>(key.size()),
                                .queue = in,
                                .taken = false,
                                .freed = false,
                                .tried = false,
                                .unheard = false});
}

// Returns a slot of the limit that this transaction has freed and that take_own_free_slot() has not returned yet, or
// nullptr if there is none.
LoggedSlot *own_free_slot(int64 limit) {
    LoggedSlot *found = std::find_if(log.slots.begin(), log.slots.end(), [limit](const LoggedSlot &slot) {
        return slot.freed && !slot.tried && core::limit_of_slot(slot.slot) == limit;
    });
    return found == log.slots.end() ? nullptr : found;
}

// ---- The public functions.

LoggedRound *round_of_worker() {
    if (!log.round.any) {
        log.round = {};
        log.round.any = true;
        log.round.due = log.round.lease_deadline = DT_NOEND;
    }
    return &log.round;
}

}  // namespace

const TransactionLog &transaction_log() { return log; }

void count_at_commit(std::string_view queue, core::JobStatus from, core::JobStatus to, int64 count) {
    if (from == to || count == 0) return;
    core::Counts *counts = counts_of(queue);
    if (counts == nullptr) return;
    counts->jobs[index_of(from)] -= count;
    counts->jobs[index_of(to)] += count;
    if (to == core::JobStatus::Processing) events(counts, core::CountedEvent::Claimed) += count;
    if (to == core::JobStatus::Completed) events(counts, core::CountedEvent::Completed) += count;
}

void count_inserts_at_commit(std::string_view queue, core::JobStatus status, int64 count) {
    core::Counts *counts = count == 0 ? nullptr : counts_of(queue);
    if (counts == nullptr) return;
    counts->jobs[index_of(status)] += count;
    events(counts, core::CountedEvent::Enqueued) += count;
}

void count_deletes_at_commit(std::string_view queue, core::JobStatus status, int64 count) {
    core::Counts *counts = count == 0 ? nullptr : counts_of(queue);
    if (counts != nullptr) counts->jobs[index_of(status)] -= count;
}

void count_move_at_commit(std::string_view from_queue, core::JobStatus from, std::string_view to_queue,
                          core::JobStatus to) {
    if (from_queue == to_queue) {
        count_at_commit(from_queue, from, to, 1);
        return;
    }
    if (core::Counts *counts = counts_of(from_queue)) counts->jobs[index_of(from)]--;
    if (core::Counts *counts = counts_of(to_queue)) counts->jobs[index_of(to)]++;
}

void count_event_at_commit(std::string_view queue, core::CountedEvent event, int64 count) {
    if (core::Counts *counts = counts_of(queue)) events(counts, event) += count;
}

void tally_at_commit(std::string_view queue, std::string_view kind, const core::Happened &happened) {
    if (happened.tallies == 0 || !settings.track_metrics || !has_readers()) return;
    if (core::SeriesChange *change = log.series.at(queue, kind, GetCurrentTransactionNestLevel()))
        core::note(&change->numbers, happened);
}

void log_queue_dropped(std::string_view queue) {
    if (!has_readers()) return;
    core::SeriesChange *change = log.series.at(queue, {}, GetCurrentTransactionNestLevel());
    if (change != nullptr && (queue.empty() || change->name.queue_bytes > 0)) change->dropped = true;
}

void recount_at_commit() {
    if (!has_readers()) return;
    log.counts_unknown = true;
    log_due(GetCurrentTimestamp());
}

bool log_ready(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new) {
    if (!has_readers()) return false;
    round_of_worker();
    if (!is_new) log.claimed_before = true;
    if (log.ready_unknown) return false;
    const uint64 hash = hash_of_lane(lane, key.priority);
    LoggedReady *known = log.ready.find(
        hash, [&](const LoggedReady &ready) { return ready.lane == lane && ready.first.priority == key.priority; });
    if (known != nullptr) {
        if (key < known->first) known->first = key;
        if (known->last < key) known->last = key;
        known->count++;
        return false;
    }
    LoggedQueue *in = logged_queue(queue);
    if (log.ready.add(
            hash, {.lane = lane, .first = key, .last = key, .count = 1, .queue = index_of(in), .traits = kNoTraits}) ==
        nullptr) {
        log.ready_unknown = true;
        return false;
    }
    if (in == nullptr) {
        log.queues_unknown = true;
        return false;
    }
    in->notify = true;
    in->undescribed++;
    return log.traits_count < kMaxLoggedTraits;
}

void describe_ready_lane(int64 lane, const core::LaneTraits &traits) {
    LoggedReady *ready = log.ready.end() - 1;
    if (log.ready.count == 0 || ready->lane != lane || ready->traits != kNoTraits) return;
    log.traits[log.traits_count] = traits;
    ready->traits = static_cast<int16>(log.traits_count++);
    log.queues.items[ready->queue].undescribed--;
}

void log_settings(std::string_view queue) {
    if (!has_readers()) return;
    round_of_worker();
    LoggedQueue *logged = queue.empty() ? nullptr : logged_queue(queue);
    if (logged != nullptr)
        logged->settings = logged->notify = true;
    else
        log.queues_unknown = true;
}

void log_claim(std::string_view queue, int jobs) {
    if (!has_readers()) return;
    log.claims = true;
    LoggedQueue *logged = logged_queue(queue);
    if (logged == nullptr) {
        log.claims_unknown = true;
        return;
    }
    logged->claimed += jobs;
    logged->claimed_in = GetCurrentSubTransactionId();
}

bool log_lanes() {
    log.lanes_in = Max(log.lanes_in, GetCurrentSubTransactionId());
    return log.news_sent;
}

void log_finished(int64 job, bool completed) {
    if (!has_readers()) return;
    if (log.finished_count < kMaxLoggedFinished) {
        log.completed[log.finished_count] = completed;
        log.finished[log.finished_count++] = job;
    } else {
        log.finished_unknown = true;
    }
}

void log_finished_anywhere() {
    if (has_readers()) log.finished_unknown = true;
}

void log_unblocked(Blocker blocker, int64 key, int64 job) {
    if (!has_readers() || (log.unblocked_unknown & bit_of(blocker)) != 0) return;
    uint16 *recent = &log.recently_unblocked[static_cast<uint64>(key) % kRecentlyUnblocked];
    Unblocked *known = &log.unblocked[*recent];
    if (*recent < log.unblocked_count && known->key == key && known->blocker == blocker) {
        known->job = Min(known->job, job);
        return;
    }
    if (log.unblocked_count == kMaxLoggedUnblocked) {
        log.unblocked_unknown |= bit_of(blocker);
        return;
    }
    *recent = static_cast<uint16>(log.unblocked_count);
    log.unblocked[log.unblocked_count++] = {key, job, blocker};
}

void log_unblocked_anywhere(Blocker blocker) {
    if (has_readers()) log.unblocked_unknown |= bit_of(blocker);
}

void unblocking_until_commit(bool going_on) { log.unblocking = going_on; }

void log_head_ended(int64 group, int64 job) {
    if (log.ended_heads_count < kMaxEndedHeads) log.ended_heads[log.ended_heads_count++] = {group, job};
}

void leave_next_heads() { log.heads_left = true; }

void unlog_free_group(int64 group) {
    const uint16 at = log.recently_unblocked[static_cast<uint64>(group) % kRecentlyUnblocked];
    if (at >= log.unblocked_count) return;
    Unblocked *logged = &log.unblocked[at];
    // Removes nothing if the entry at this index does not belong to the group, or if new jobs wait for their turn in
    // the group. In these cases, the background worker makes an unnecessary search.
    if (logged->blocker != Blocker::Group || logged->key != group || logged->job != kNoJob) return;
    const int last = --log.unblocked_count;
    if (at == last) return;
    *logged = log.unblocked[last];
    uint16 *moved = &log.recently_unblocked[static_cast<uint64>(logged->key) % kRecentlyUnblocked];
    if (*moved == last) *moved = at;
}

bool publish_slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq, uint64 ticket) {
    if (!has_readers()) return false;
    LoggedSlot *logged = logged_slot(queue, key, slot);
    if (logged == nullptr) {
        log.slots_taken_unknown = true;
        return false;
    }
    logged->taken = true;
    logged->seq = seq;
    logged->ticket = ticket;
    return true;
}

void slot_freed_at_commit(std::string_view queue, std::string_view key, int64 slot) {
    if (!has_readers()) return;
    LoggedSlot *logged = logged_slot(queue, key, slot);
    if (logged == nullptr) {
        log.slots_freed_unknown = true;
        return;
    }
    logged->freed = true;
    logged->tried = false;
    if (!key.empty() && !logged->unheard) {
        logged->unheard = true;
        log.unheard_keys++;
    }
}

void slots_freed_at_commit() {
    if (has_readers()) log.slots_freed_unknown = true;
}

void log_members(int64 limit, const std::string_view *queues, int count) {
    if (!has_readers()) return;
    const uint64 hash = core::mix64(static_cast<uint64>(limit));
    if (log.members.find(hash, [limit](const LoggedMember &member) { return member.limit == limit; }) != nullptr)
        return;
    for (int i = 0; i < count; i++) {
        const QueueIndex in = index_of(queue_entry(queues[i]));
        if (in != kNoQueue && log.members.add(hash, {limit, in}) != nullptr) continue;
        log.slots_taken_unknown = log.slots_freed_unknown = true;
        return;
    }
}

void log_due(TimestampTz when) {
    if (!has_readers()) return;
    LoggedRound *round = round_of_worker();
    if (when < round->due) round->due = when;
}

void log_member_ended() {
    // Without the delay, each member of a batch that ends could cause a round of the background worker.
    constexpr core::Micros kDelay = 100000;
    log_due(GetCurrentTimestamp() + kDelay);
}

void log_key(core::KeySpace space, const core::ClaimKey &key) {
    if (!has_readers()) return;
    LoggedKeys *keys = &log.places[static_cast<int>(space)];
    if (!keys->any) *keys = {true, key, key};
    keys->first = std::min(keys->first, key);
    keys->last = std::max(keys->last, key);
}

void log_due_job(TimestampTz run_at, int64 id) {
    log_due(run_at);
    log_key(core::KeySpace::Due, core::due_key(run_at, id));
}

void log_due_schedule(TimestampTz when) {
    log_due(when);
    log_key(core::KeySpace::Schedules, core::schedule_key(when));
}

void log_lease_deadline(TimestampTz when) {
    log_due(when);
    if (log.round.any && when < log.round.lease_deadline) log.round.lease_deadline = when;
}

void log_horizon(uint64 version, const Horizon &found) {
    if (version == 0) return;
    LoggedRound *round = round_of_worker();
    round->horizon_version = version;
    round->horizon = found;
    round->looked_in = GetCurrentSubTransactionId();
}

void announce_extension_at_commit() {
    if (has_readers()) round_of_worker()->extension = true;
}

void announce_databases_at_commit() {
    if (has_readers()) log.databases = true;
}

bool has_unpublished_jobs(int64 lane) {
    return log.ready_unknown || std::any_of(log.ready.begin(), log.ready.end(),
                                            [lane](const LoggedReady &ready) { return ready.lane == lane; });
}

bool has_unpublished_keys(core::KeySpace space) { return log.places[static_cast<int>(space)].any; }

int64 own_depth(std::string_view queue) {
    QueueName name;
    copy_queue(name, queue);
    int64 depth = 0;
    for (const QueueChange &change : log.changes) {
        if (!same_queue(change.queue, name)) continue;
        for (const core::StatusRow &row : core::kJobStatuses)
            if (core::is_waiting(row.status)) depth += change.counts.jobs[index_of(row.status)];
    }
    return depth;
}

bool counts_unknown_here() { return log.counts_unknown; }

bool has_own_free_slot(int64 limit) { return log.slots_freed_unknown || own_free_slot(limit) != nullptr; }

int64 take_own_free_slot(int64 limit) {
    LoggedSlot *slot = own_free_slot(limit);
    if (slot == nullptr) return 0;
    slot->tried = true;
    return slot->slot;
}

bool any_slot_freed_here() { return log.slots_freed_unknown; }

bool next_key_freed_here(std::string_view *queue, std::string_view *key) {
    if (log.unheard_keys == 0) return false;
    LoggedSlot *found =
        std::find_if(log.slots.begin(), log.slots.end(), [](const LoggedSlot &slot) { return slot.unheard; });
    found->unheard = false;
    log.unheard_keys--;
    *queue = queue_view(log.queues.items[found->queue].name);
    *key = log.key_of(*found);
    return true;
}

bool begin_sending_news() {
    log.news_sent = true;
    return log.lanes_in != InvalidSubTransactionId;
}

void hand_log_to_parent() {
    const int level = GetCurrentTransactionNestLevel();
    log.series.hand_to_parent(level);
    const int end = log.changes.count;
    pop_changes(level);
    // An added entry can overwrite only entries that this loop has already read.
    for (int i = log.changes.count; i < end; i++) {
        const QueueChange change = log.changes.items[i];
        if (core::Counts *parent = counts_at(change.queue, level - 1)) core::add_counts(parent, change.counts);
    }
}

void roll_back_log() {
    pop_changes(GetCurrentTransactionNestLevel());
    log.series.forget_level(GetCurrentTransactionNestLevel());
    // Discards the result of the horizon scan if the rollback might restore running jobs that the scan did not see. The
    // rollback of a savepoint that began after the scan does not change what the scan saw.
    if (GetCurrentSubTransactionId() <= log.round.looked_in) log.round.horizon_version = 0;
    // Clears the tickets for raise_slot_bounds(), because after the rollback, the rows again hold the slots that the
    // subtransaction had freed.
    for (LoggedSlot &slot : log.slots) slot.ticket = 0;
    if (log.ended_heads_count > 0) log.heads_left = true;
}

void clear_log() {
    log.changes.clear();
    log.counts_unknown = false;
    log.series.clear();
    log.queues.clear();
    log.ready.clear();
    log.traits_count = 0;
    log.ready_unknown = log.claimed_before = log.queues_unknown = log.claims = log.claims_unknown = false;
    log.finished_count = 0;
    log.finished_unknown = false;
    log.unblocked_count = 0;
    log.unblocked_unknown = 0;
    log.unblocking = false;
    log.ended_heads_count = 0;
    log.heads_left = false;
    log.slots.clear();
    log.key_bytes = log.unheard_keys = 0;
    log.slots_taken_unknown = log.slots_freed_unknown = false;
    log.members.clear();
    for (LoggedKeys &keys : log.places) keys.any = false;
    log.round.any = false;
    log.databases = false;
    log.lanes_in = InvalidSubTransactionId;
    log.news_sent = false;
}

}  // namespace jobq
