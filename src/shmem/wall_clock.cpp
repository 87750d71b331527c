// See wall_clock.h. Detects steps of the wall clock by comparing it with the monotonic clock. The difference between
// the two clocks is stored in shared memory, so that the first process that checks the clock detects a step for all
// processes.
#include "compat/pg.h"

#include "core/clock.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "shmem/wall_clock.h"

#include <ctime>

namespace jobq {

namespace {

// Smallest step of the wall clock that counts. Smaller steps are ignored, because they shift the end of a lease by less
// than the heartbeat interval.
constexpr core::Micros kStepTolerance = core::kSecond;
// If the wall clock is slewed (adjusted gradually), the shared difference is updated only when it has changed by this
// much, so that it is rarely written.
constexpr core::Micros kDriftStep = 20000;
// Maximum time between reading the two clocks. If more time passes, the two values cannot be compared.
constexpr core::Micros kReadingTime = 10000;

core::ClockReading read_clocks() {
    core::ClockReading reading = {0, 0};
    core::Micros before = monotonic_now();
    for (int i = 0; i < 10; i++) {
        reading.wall = GetCurrentTimestamp();
        reading.monotonic = monotonic_now();
        if (reading.monotonic - before < kReadingTime) break;
        before = reading.monotonic;
    }
    return reading;
}

void start_grace(TimestampTz now) { pg_atomic_write_u64(&shared_state()->grace_start, static_cast<uint64>(now)); }

}  // namespace

core::Micros monotonic_now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<core::Micros>(time.tv_sec) * core::kSecond + time.tv_nsec / 1000;
}

void everything_is_due(TimestampTz now) {
    SharedState *state = shared_state();
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    for (DatabaseState &db : state->databases) {
        db.horizon = kUnknownHorizon;
        db.horizon_version = ++state->horizon_versions;
    }
    LWLockRelease(database_states_lock());
    for (DatabaseState &db : state->databases) {
        if (pg_atomic_read_u32(&db.database) != InvalidOid && db.extension == Presence::Present) publish_due(&db, now);
    }
}

void start_clock() {
    const core::ClockReading reading = read_clocks();
    pg_atomic_write_u64(&shared_state()->clock_offset, static_cast<uint64>(reading.wall - reading.monotonic));
    start_grace(reading.wall);
}

TimestampTz writing_since() {
    if (!shared_memory_ready()) return PgStartTime;
    pg_atomic_uint64 *since = &shared_state()->writing_since;
    const uint64 known = pg_atomic_read_u64(since);
    if (known != 0) return static_cast<TimestampTz>(known);
    const TimestampTz now = GetCurrentTimestamp();
    if (RecoveryInProgress()) return now;
    // Starts the grace period before storing the time at which the server began to write, so that no process sees this
    // time without the grace period.
    start_clock();
    uint64 first = 0;
    return pg_atomic_compare_exchange_u64(since, &first, static_cast<uint64>(now)) ? now
                                                                                   : static_cast<TimestampTz>(first);
}

TimestampTz checked_now() {
    const core::ClockReading reading = read_clocks();
    pg_atomic_uint64 *shared_offset = &shared_state()->clock_offset;
    uint64 known = pg_atomic_read_u64(shared_offset);
    const core::ClockReading before = {static_cast<core::Micros>(known), 0};
    const core::Micros offset = reading.wall - reading.monotonic;
    const core::Micros step = core::clock_step(before, reading, kStepTolerance);
    if (step == 0) {
        if (offset - before.wall > kDriftStep || before.wall - offset > kDriftStep)
            pg_atomic_compare_exchange_u64(shared_offset, &known, static_cast<uint64>(offset));
        return reading.wall;
    }
    // Starts the grace period before storing the new offset, so that no process uses the new time without the grace
    // period.
    start_grace(reading.wall);
    if (pg_atomic_compare_exchange_u64(shared_offset, &known, static_cast<uint64>(offset))) {
        ereport(LOG,
                (errmsg("jobq: the clock stepped by %.1f s; running jobs get a grace period of one heartbeat timeout",
                        static_cast<double>(step) / static_cast<double>(core::kSecond))));
        everything_is_due(reading.wall);
    }
    return reading.wall;
}

TimestampTz grace_start() {
    if (!shared_memory_ready()) return PgStartTime;
    writing_since();
    // Detects a step of the clock first, because the caller will use the result to decide whether leases have expired.
    checked_now();
    return static_cast<TimestampTz>(pg_atomic_read_u64(&shared_state()->grace_start));
}

}  // namespace jobq
