// See known_lanes.h. Most queues have few lanes, so one hash table contains the lanes of all queues and another
// contains all kinds. Each queue has a list of its kinds, and each kind has a list of its lanes.
#include "compat/pg.h"

#include "compat/memory.h"
#include "core/stable_hash.h"
#include "lanes/known_lanes.h"

namespace jobq {

namespace {

// Maximum size of the cache, which limits the memory of a session that uses more and more names. The queue in use may
// have more lanes than the maximum.
constexpr int kMaxKnownQueues = 10000;
constexpr int kMaxKnownLanes = 500000;

MemoryContext all = nullptr;  // owns the hash tables
HTAB *queues = nullptr, *kinds = nullptr, *lanes = nullptr;
// The entry that was used last. It saves most lookups, because a call looks up its queue several times, and most
// sessions use one queue.
KnownLanes *last_used = nullptr;
int64 known_lanes = 0;

void open_tables() {
    if (queues != nullptr) return;
    if (all == nullptr) all = AllocSetContextCreate(CacheMemoryContext, "jobq known lanes", ALLOCSET_SMALL_SIZES);
    lanes = make_hash_table("jobq lanes", sizeof(KnownKey), sizeof(KnownLane), all);
    kinds = make_hash_table("jobq kinds", sizeof(KnownKey), sizeof(KnownKind), all);
    queues = make_hash_table("jobq lanes by queue", sizeof(QueueName), sizeof(KnownLanes), all);
}

template <typename Body>
void each_lane(const KnownLanes &known, Body body) {
    for (KnownKind *kind = known.kinds; kind != nullptr; kind = kind->next)
        for (KnownLane *lane = kind->first; lane != nullptr;) {
            KnownLane *next = lane->next_of_kind;
            body(lane);
            lane = next;
        }
}

void forget(KnownLanes *known) {
    if (known->context == nullptr) return;
    known_lanes -= known->lane_count;
    each_lane(*known, [](KnownLane *lane) { hash_search(lanes, &lane->key, HASH_REMOVE, nullptr); });
    for (KnownKind *kind = known->kinds; kind != nullptr;) {
        KnownKind *next = kind->next;
        hash_search(kinds, &kind->key, HASH_REMOVE, nullptr);
        kind = next;
    }
    MemoryContextDelete(known->context);
    known->context = nullptr;
}

void make_room_for_id(KnownLanes *known) {
    if (known->id_count < known->id_room) return;
    const int room = Max(known->id_room * 2, 64);
    const Size size = sizeof(int64) * room;
    known->ids = static_cast<int64 *>(known->ids == nullptr ? MemoryContextAllocHuge(known->context, size)
                                                            : repalloc_huge(known->ids, size));
    known->id_room = room;
}

void set_leaving(KnownLanes *known, KnownLane *lane, bool leaving) {
    known->leaving += static_cast<int>(leaving) - static_cast<int>(lane->leaving);
    lane->leaving = leaving;
}

}  // namespace

KnownLanes *entry_of(std::string_view queue) {
    if (last_used != nullptr && same_queue(last_used->queue, queue)) return last_used;
    open_tables();
    QueueName key;
    copy_queue(key, queue);
    bool found;
    auto *known = static_cast<KnownLanes *>(hash_search(queues, key, HASH_ENTER, &found));
    if (!found) {
        known->context = nullptr;
        known->all_read = 0;
        known->deleted = InvalidFullTransactionId;
    }
    last_used = known;
    return known;
}

int64 lanes_in(const KnownLanes &known) { return known.context == nullptr ? 0 : known.lane_count; }

bool knows_too_much(const KnownLanes &used) {
    return hash_get_num_entries(queues) > kMaxKnownQueues || known_lanes - lanes_in(used) > kMaxKnownLanes;
}

void forget_all_lanes() {
    if (all != nullptr) MemoryContextDelete(all);
    all = nullptr;
    queues = kinds = lanes = nullptr;
    last_used = nullptr;
    known_lanes = 0;
}

void begin_to_know(KnownLanes *known) {
    forget(known);
    MemoryContext context = AllocSetContextCreate(all, "jobq lanes", ALLOCSET_SMALL_SIZES);
    known->kinds = nullptr;
    known->seen = {};
    known->lane_count = known->leaving = 0;
    known->whole = false;
    known->ids = nullptr;
    known->id_count = known->id_room = known->in_order = 0;
    known->context = context;
}

KnownKind *kind_of(KnownLanes *known, std::string_view name) {
    const KnownKey key = {known, core::stable_hash(name)};
    bool found;
    auto *kind = static_cast<KnownKind *>(hash_search(kinds, &key, HASH_ENTER, &found));
    if (!found) {
        kind->complete = false;
        kind->first = nullptr;
        kind->next = known->kinds;
        known->kinds = kind;
    }
    return kind;
}

KnownLane *lane_of(const KnownLanes *known, int64 id) {
    const KnownKey key = {known, id};
    return static_cast<KnownLane *>(hash_search(lanes, &key, HASH_FIND, nullptr));
}

void add_lane(KnownLanes *known, int64 id, std::string_view kind, int32 version, const Names &required, bool leaving) {
    if (KnownLane *lane = lane_of(known, id)) {
        set_leaving(known, lane, leaving);
        return;
    }
    const std::string_view own_kind = keep(known->context, kind);
    std::string_view *own_names = nullptr;
    if (required.count > 0) {
        own_names = static_cast<std::string_view *>(
            MemoryContextAlloc(known->context, sizeof(std::string_view) * required.count));
        for (int i = 0; i < required.count; i++) own_names[i] = keep(known->context, required.items[i]);
    }
    KnownKind *of = kind_of(known, kind);
    // Allocates memory before changing the cache, because the allocation can fail.
    if (known->whole) make_room_for_id(known);
    const KnownKey key = {known, id};
    auto *lane = static_cast<KnownLane *>(hash_search(lanes, &key, HASH_ENTER, nullptr));
    if (known->whole) known->ids[known->id_count++] = id;
    known->lane_count++;
    known_lanes++;
    lane->leaving = false;
    set_leaving(known, lane, leaving);
    lane->version = version;
    lane->kind = own_kind;
    lane->required = own_names;
    lane->required_count = required.count;
    lane->next_of_kind = of->first;
    of->first = lane;
}

bool is_met(const KnownLanes &known, int64 id, std::string_view kind) {
    if (known.whole || lane_of(&known, id) != nullptr) return true;
    const KnownKey key = {&known, core::stable_hash(kind)};
    const auto *found = static_cast<KnownKind *>(hash_search(kinds, &key, HASH_FIND, nullptr));
    return found != nullptr && found->complete;
}

void list_all(KnownLanes *known) {
    known->id_count = known->in_order = 0;
    each_lane(*known, [known](const KnownLane *lane) {
        make_room_for_id(known);
        known->ids[known->id_count++] = lane->key.number;
    });
    known->whole = true;
}

}  // namespace jobq
