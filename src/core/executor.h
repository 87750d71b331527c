// Decides when an executor is started, which executor makes room, and what happens to a job whose executor is gone.
// Pure: processes/supervise.cpp and handlers/orphans.cpp gather the facts.
#pragma once

#include "core/job.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// Returns the number that represents a handler, or a queue, in shared memory. Numbers can collide, even by a user's
// intent. Two queues with the same number share wake-ups, and two handlers of one role share a place; a collision never
// changes which function runs a job.
std::uint64_t handler_hash(std::string_view queue, std::string_view kind) noexcept;

// The executors of one role in one database. The database's background worker starts them.
struct PoolFacts {
    std::uint32_t role;
    bool wants_one;  // the pool has a job, and none of its executors is about to claim it
    bool rests;      // the last executor failed to start, so the pool waits
};
static_assert(std::is_trivially_copyable_v<PoolFacts>, "may live where a longjmp skips destructors");

// An executor of any database.
struct ExecutorFacts {
    std::uint32_t database, role;
    bool idle;      // waits for a job
    bool starting;  // will be idle soon
    bool leaving;   // was asked to leave
    Micros since;   // when it became idle or, if it is not idle, when it took its place
    Micros asked;   // when it was asked to leave
};
static_assert(std::is_trivially_copyable_v<ExecutorFacts>, "may live where a longjmp skips destructors");

// A database whose handlers wait for an executor.
struct ExecutorWaitFacts {
    std::uint32_t database;  // 0 if this entry is unused
    Micros since;
    Micros seen;  // when the database's worker last confirmed the wait
};
static_assert(std::is_trivially_copyable_v<ExecutorWaitFacts>, "lives in shared memory");

// Returns the index of the database that has waited longest, or -1. A wait expires `kept` after its worker last
// confirmed it, because a worker can end without removing its wait.
int longest_wait(const ExecutorWaitFacts *waits, int count, Micros kept, Micros now) noexcept;
// Returns the number of databases that have waited longer than `database`. If `database` does not wait yet, its wait
// begins now.
int databases_ahead(std::uint32_t database, const ExecutorWaitFacts *waits, int count, Micros kept,
                    Micros now) noexcept;

struct ExecutorPlan {
    int start;      // index of the pool that gets a new executor, or -1
    int leave;      // index of the executor that must leave after its current job, or -1
    bool shortage;  // a pool waits for a place
};
static_assert(std::is_trivially_copyable_v<ExecutorPlan>, "may live where a longjmp skips destructors");

// Plans one step; the caller carries it out and calls again. All pools belong to `database`. The first pool that wants
// an executor is served first, so the caller must rotate the pools.
//
// The longest idle executor of another pool makes room. If none is idle, an executor of another pool that has had its
// place for at least kSlice leaves, so that pools without an executor take turns. If an executor was asked to leave
// more than kSlice ago, its job may take long, so another executor is asked. `ahead` is the number of databases that
// have waited longer; free places are left for them, so that databases take turns too.
constexpr Micros kSlice = kSecond;
ExecutorPlan plan_executors(std::uint32_t database, const PoolFacts *pools, int pool_count,
                            const ExecutorFacts *executors, int executor_count, int max_executors, int ahead,
                            Micros now) noexcept;

// What happens to a running job whose executor is gone.
enum class OrphanEnd : std::uint8_t {
    Lost,           // the attempt counts, because the job may have killed the executor
    LostInCompany,  // one of several lost jobs; the job becomes a suspect
    GivenBack,      // the attempt does not count, because the job is not to blame
    Overran,        // the job exceeded max_runtime, so its executor was ended
};
// `orphans` is the number of jobs that are found together, for example after a server crash. A suspect is blamed before
// other jobs, because only one suspect runs at a time (leases/suspects.h). `blameless` means that the executor was told
// to leave or had not started the job. `overran` means that the job had exceeded its max_runtime when its executor
// ended by itself.
OrphanEnd end_of_orphan(int orphans, bool suspect, bool blameless, bool overran) noexcept;

// Limits at which an executor ends: idle time, number of jobs, and memory.
constexpr Micros kWarm = kMinute;
constexpr int kJobsOfExecutor = 100000;
constexpr std::int64_t kBytesOfExecutor = std::int64_t{256} << 20;
// Time for which an executor claims jobs of one handler before the other handlers of the role have their turn.
constexpr Micros kTurn = kSecond;

}  // namespace jobq::core
