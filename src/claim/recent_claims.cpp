// See recent_claims.h. The notes are stored in an array without locks. Each note is one atomic number: 40 bits of a
// hash of the database and the job, 8 bits of the epoch, and 16 bits of the time in milliseconds.
#include "compat/pg.h"

#include "claim/recent_claims.h"
#include "core/ablation.h"
#include "core/stable_hash.h"
#include "shmem/spread.h"

extern "C" {
#include "port/atomics.h"
}

namespace jobq {

namespace {

constexpr int kRecentClaims = 16384;
constexpr uint16 kMoment =
    200;  // lifetime of a note in milliseconds; with hundreds of concurrent claims, each may wait this long for a CPU

struct Claimed {
    pg_atomic_uint32 epoch;
    pg_atomic_uint64 notes[kRecentClaims];
};

Claimed *claimed = nullptr;

uint64 hash_of(int64 job) { return core::mix64(static_cast<uint64>(job) ^ (static_cast<uint64>(MyDatabaseId) << 40)); }

uint16 clock_of(TimestampTz now) { return static_cast<uint16>(now / 1000); }

uint64 note_of(uint64 hash, TimestampTz now) {
    return (hash & ~UINT64CONST(0xffffff)) | static_cast<uint64>(pg_atomic_read_u32(&claimed->epoch) & 0xff) << 16 |
           clock_of(now);
}

// Returns the place of a job's note. Jobs with consecutive ids have adjacent places, because a claim usually looks up
// the notes in the order of job ids.
pg_atomic_uint64 *place_of(int64 job) {
    return &claimed->notes[(static_cast<uint64>(job) + spread(MyDatabaseId, 0)) % kRecentClaims];
}

}  // namespace

void remember_claim(int64 job, TimestampTz now) {
    if (claimed != nullptr) pg_atomic_write_u64(place_of(job), note_of(hash_of(job), now));
}

bool recently_claimed(int64 job, TimestampTz now) {
    if (claimed == nullptr) return false;
    const uint64 note = pg_atomic_read_u64(place_of(job));
    const uint64 wanted = note_of(hash_of(job), now);
    const auto age = static_cast<uint16>(wanted - note);
    // The note can be newer than `now`, because the clocks of two processors can differ, and because the caller read
    // `now` when it started.
    return note >> 16 == wanted >> 16 && (age <= kMoment || age >= static_cast<uint16>(-kMoment));
}

void forget_recent_claims() {
    if (claimed != nullptr) pg_atomic_fetch_add_u32(&claimed->epoch, 1);
}

Size recent_claims_size() { return sizeof(Claimed); }

void make_recent_claims(void *memory, bool fresh) {
    if constexpr (!core::built_with(core::Mechanism::RecentClaims)) return;
    claimed = static_cast<Claimed *>(memory);
    if (!fresh) return;
    pg_atomic_init_u32(&claimed->epoch, 0);
    for (pg_atomic_uint64 &note : claimed->notes) pg_atomic_init_u64(&note, 0);
}

}  // namespace jobq
