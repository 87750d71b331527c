// See round_robin.h.
#include "compat/pg.h"

#include "claim/fairness_policy.h"
#include "claim/round_robin.h"
#include "compat/queue_name.h"

extern "C" {
#include "common/pg_prng.h"
}

namespace jobq {

namespace {

constexpr uint32 kPlaces = 1024;

pg_atomic_uint64 *shared_places = nullptr;
pg_atomic_uint64 own_places[kPlaces];
bool own_ready = false;

void begin_at_random(pg_atomic_uint64 *places) {
    for (uint32 i = 0; i < kPlaces; i++) pg_atomic_init_u64(&places[i], pg_prng_uint64(&pg_global_prng_state) >> 1);
}

}  // namespace

pg_atomic_uint64 *round_robin_position(std::string_view queue) {
    const uint64 place = digest_of_queue(queue) % kPlaces;
    if (shared_places != nullptr) return &shared_places[place];
    if (!own_ready) begin_at_random(own_places);
    own_ready = true;
    return &own_places[place];
}

Size round_robin_size() { return sizeof(pg_atomic_uint64) * kPlaces; }

void make_round_robin(void *memory, bool fresh) {
    shared_places = static_cast<pg_atomic_uint64 *>(memory);
    if (fresh)
        for (uint32 i = 0; i < kPlaces; i++) pg_atomic_init_u64(&shared_places[i], 0);
}

}  // namespace jobq
