// See counting.h.
#include "pg/pg.h"

#include "shared/counters.h"
#include "shared/counting.h"
#include "shared/memory.h"
#include "shared/prepared.h"
#include "shared/publish.h"

namespace jobq {

namespace {

constexpr int kBuckets = 256;
// A transaction that changes more queues than this makes the counters unknown.
constexpr int kMaxChanges = 10000;
// So many stay allocated between transactions.
constexpr int kKeptChanges = 64;

// The changes of the current transaction: a stack, since only the innermost subtransaction changes anything and its
// levels never decrease; the buckets chain changes of equal hash, newest first.
struct Changes {
    QueueChange *items;  // in TopMemoryContext
    int count;
    int room;
    bool unknown;
    int buckets[kBuckets];  // index + 1
};
Changes changes = {};

int *bucket_of(uint32 hash) { return &changes.buckets[hash % kBuckets]; }

QueueChange *find_change(const char *queue, uint32 hash, int level) {
    for (int i = *bucket_of(hash); i != 0; i = changes.items[i - 1].next) {
        QueueChange *change = &changes.items[i - 1];
        if (change->level < level) return nullptr;
        if (change->hash == hash && change->level == level && memcmp(change->queue, queue, NAMEDATALEN) == 0)
            return change;
    }
    return nullptr;
}

// nullptr when there are too many.
QueueChange *push_change(const char *queue, uint32 hash, int level) {
    if (changes.count == kMaxChanges) {
        recount_at_commit();
        return nullptr;
    }
    if (changes.count == changes.room) {
        const int room = Max(changes.room * 2, kKeptChanges);
        const Size size = sizeof(QueueChange) * room;
        changes.items = static_cast<QueueChange *>(changes.items == nullptr ? MemoryContextAlloc(TopMemoryContext, size)
                                                                            : repalloc(changes.items, size));
        changes.room = room;
    }
    QueueChange *change = &changes.items[changes.count++];
    memcpy(change->queue, queue, NAMEDATALEN);
    change->hash = hash;
    change->level = level;
    change->next = *bucket_of(hash);
    change->counts = {};
    *bucket_of(hash) = changes.count;
    return change;
}

// Takes the changes of that level and those within it off the stack; they stay readable behind its end.
void pop_changes(int level) {
    while (changes.count > 0 && changes.items[changes.count - 1].level >= level) {
        const QueueChange &last = changes.items[--changes.count];
        *bucket_of(last.hash) = last.next;
    }
}

void hand_to_parent(int level) {
    const int end = changes.count;
    pop_changes(level);
    // What is pushed takes a place that has been read already.
    for (int i = changes.count; i < end; i++) {
        const QueueChange change = changes.items[i];
        QueueChange *parent = find_change(change.queue, change.hash, level - 1);
        if (parent == nullptr) parent = push_change(change.queue, change.hash, level - 1);
        core::add_counts(&parent->counts, change.counts);
    }
}

void clear_changes() {
    pop_changes(0);
    changes.unknown = false;
    if (changes.room > kKeptChanges) {
        pfree(changes.items);
        changes.items = nullptr;
        changes.room = 0;
    }
}

bool any_change() { return changes.count > 0 || changes.unknown; }

bool can_count() { return shared_memory_ready() && IsUnderPostmaster; }

// The changes of the current subtransaction to a queue; nullptr: not counted.
core::Counts *changes_of(std::string_view queue) {
    if (!can_count()) return nullptr;
    char name[NAMEDATALEN] = {};
    // Longer names come in with triggers disabled only.
    if (queue.size() >= sizeof(name)) return nullptr;
    memcpy(name, queue.data(), queue.size());
    const int level = GetCurrentTransactionNestLevel();
    // Mostly the same as before.
    if (changes.count > 0) {
        QueueChange *last = &changes.items[changes.count - 1];
        if (last->level == level && memcmp(last->queue, name, NAMEDATALEN) == 0) return &last->counts;
    }
    const uint32 hash = hash_of_queue(name);
    QueueChange *change = find_change(name, hash, level);
    if (change == nullptr) change = push_change(name, hash, level);
    return change != nullptr ? &change->counts : nullptr;
}

int index_of(core::JobStatus status) { return static_cast<int>(status); }

int64 &events(core::Counts *counts, core::CountedEvent event) { return counts->events[static_cast<int>(event)]; }

}  // namespace

void count_at_commit(std::string_view queue, core::JobStatus from, core::JobStatus to, int64 count) {
    if (from == to || count == 0) return;
    core::Counts *counts = changes_of(queue);
    if (counts == nullptr) return;
    counts->jobs[index_of(from)] -= count;
    counts->jobs[index_of(to)] += count;
    if (to == core::JobStatus::Processing) events(counts, core::CountedEvent::Claimed) += count;
    if (to == core::JobStatus::Completed) events(counts, core::CountedEvent::Completed) += count;
}

void count_inserts_at_commit(std::string_view queue, core::JobStatus status, int64 count) {
    core::Counts *counts = count == 0 ? nullptr : changes_of(queue);
    if (counts == nullptr) return;
    counts->jobs[index_of(status)] += count;
    events(counts, core::CountedEvent::Enqueued) += count;
}

void count_deletes_at_commit(std::string_view queue, core::JobStatus status, int64 count) {
    core::Counts *counts = count == 0 ? nullptr : changes_of(queue);
    if (counts != nullptr) counts->jobs[index_of(status)] -= count;
}

void count_move_at_commit(std::string_view from_queue, core::JobStatus from, std::string_view to_queue,
                          core::JobStatus to) {
    if (from_queue == to_queue) {
        count_at_commit(from_queue, from, to, 1);
        return;
    }
    if (core::Counts *counts = changes_of(from_queue)) counts->jobs[index_of(from)]--;
    if (core::Counts *counts = changes_of(to_queue)) counts->jobs[index_of(to)]++;
}

void count_event_at_commit(std::string_view queue, core::CountedEvent event, int64 count) {
    if (core::Counts *counts = changes_of(queue)) events(counts, event) += count;
}

void recount_at_commit() {
    if (!can_count()) return;
    changes.unknown = true;
    publish_due_at_commit(GetCurrentTimestamp());
}

const QueueChange *own_changes(int *count) {
    *count = changes.count;
    return changes.items;
}

int64 own_depth(std::string_view queue) {
    char name[NAMEDATALEN] = {};
    memcpy(name, queue.data(), Min(queue.size(), sizeof(name) - 1));
    const uint32 hash = hash_of_queue(name);
    int64 depth = 0;
    for (int i = *bucket_of(hash); i != 0; i = changes.items[i - 1].next) {
        const QueueChange &change = changes.items[i - 1];
        if (change.hash != hash || memcmp(change.queue, name, NAMEDATALEN) != 0) continue;
        for (int s = 0; s < core::kJobStatusCount; s++)
            if (core::is_waiting(static_cast<core::JobStatus>(s))) depth += change.counts.jobs[s];
    }
    return depth;
}

bool counts_unknown_here() { return changes.unknown; }

void add_counted() {
    if (!any_change()) return;
    add_changes(changes.items, changes.count, GetTopFullTransactionIdIfAny(), changes.unknown);
    clear_changes();
}

void keep_counted() {
    if (!any_change()) return;
    keep_changes(changes.items, changes.count, changes.unknown);
    clear_changes();
}

void forget_counted() {
    abandon_recount();
    if (any_change()) clear_changes();
}

void hand_counted_to_parent() {
    const int level = GetCurrentTransactionNestLevel();
    if (changes.count > 0 && changes.items[changes.count - 1].level >= level) hand_to_parent(level);
}

void forget_counted_of_savepoint() {
    abandon_recount();
    pop_changes(GetCurrentTransactionNestLevel());
}

}  // namespace jobq
