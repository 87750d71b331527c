// See round_robin.h. If a set of slots is full, a new queue evicts another queue from the set. The database that has
// the most slots in the set loses its least recently used queue.
#include "compat/pg.h"

#include "claim/round_robin.h"
#include "compat/queue_name.h"
#include "shmem/set_table.h"

extern "C" {
#include "common/pg_prng.h"
#include "storage/spin.h"
}

namespace jobq {

namespace {

struct Place {
    Oid database;  // InvalidOid: the slot is free
    QueueName queue;
    uint64 position;
    uint64 asked;  // value of the set's counter when the queue was last looked up
};

// A set of slots. The lock of a set is held only for a few instructions.
struct Places {
    EntrySet<Place, Part::RoundRobin> places;
    slock_t lock;
    uint64 asked;
};

constexpr uint32 kSharedSets = 128;
constexpr uint32 kOwnSets = 8;

Places *shared = nullptr;
Places own[kOwnSets];  // used if the library is not preloaded
bool own_ready = false;

void make_free(Places *sets, uint32 count) {
    memset(sets, 0, sizeof(Places) * count);
    for (uint32 i = 0; i < count; i++) SpinLockInit(&sets[i].lock);
}

Places *set_of(std::string_view queue) {
    const uint64 digest = digest_of_queue(queue);
    if (shared != nullptr) return &shared[digest % kSharedSets];
    if (!own_ready) make_free(own, kOwnSets);
    own_ready = true;
    return &own[digest % kOwnSets];
}

// Calls body(position) with the queue's position while holding the lock of the queue's set.
template <typename Body>
auto with_position(std::string_view queue, Body body) {
    QueueName name;
    copy_queue(name, queue);
    // A queue that has no slot begins at a random key, so that all keys get the same share on average even if the queue
    // is evicted repeatedly.
    const uint64 random = pg_prng_uint64(&pg_global_prng_state) >> 1;
    Places *set = set_of(queue);
    SpinLockAcquire(&set->lock);
    Place *place = set->places.find(
        [&](const Place &each) { return each.database == MyDatabaseId && same_queue(each.queue, name); });
    if (place == nullptr) {
        place = set->places.place(MyDatabaseId, [](const Place &a, const Place &b) { return a.asked < b.asked; });
        place->database = MyDatabaseId;
        memcpy(place->queue, name, sizeof(QueueName));
        place->position = random;
    }
    place->asked = ++set->asked;
    const auto result = body(&place->position);
    SpinLockRelease(&set->lock);
    return result;
}

}  // namespace

uint64 round_robin_position(std::string_view queue) {
    return with_position(queue, [](const uint64 *position) { return *position; });
}

bool move_round_robin(std::string_view queue, uint64 *expected, uint64 next) {
    return with_position(queue, [&](uint64 *position) {
        if (*position != *expected) {
            *expected = *position;
            return false;
        }
        *position = next;
        return true;
    });
}

SharedUsage round_robin_usage() {
    int64 entries = 0;
    for (Places *set = shared; set < shared + kSharedSets; set++) {
        SpinLockAcquire(&set->lock);
        entries += set->places.used();
        SpinLockRelease(&set->lock);
    }
    return {entries, int64{kSharedSets} * decltype(Places::places)::kPlaces, evictions(Part::RoundRobin)};
}

Size round_robin_size() { return sizeof(Places) * kSharedSets; }

void make_round_robin(void *memory, bool fresh) {
    shared = static_cast<Places *>(memory);
    if (fresh) make_free(shared, kSharedSets);
}

}  // namespace jobq
