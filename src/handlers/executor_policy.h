// Decides when an executor (a background process that runs the SQL handlers of one role) is started, which executor
// must leave to make room for another executor, and what happens to a job whose executor is gone. These functions are
// pure: supervise.cpp and orphans.cpp gather the facts.
#pragma once

#include "core/job.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// Returns the hash that represents a handler, or a queue, in shared memory. Hashes can collide, and a user can
// construct names that collide. If two queues have the same hash, they share wake-ups; if two handlers of one role have
// the same hash, they share an entry. A collision never changes which function runs a job.
std::uint64_t handler_hash(std::string_view queue, std::string_view kind) noexcept;

// A pool: the executors of one role in one database. The background worker of the database starts them.
struct PoolFacts {
    std::uint32_t role;
    bool wants_one;  // the pool has a job, and no executor of the pool is about to claim it
    bool rests;      // the last executor failed to start, so the pool must wait before it starts another
};
static_assert(std::is_trivially_copyable_v<PoolFacts>, "may live where a longjmp skips destructors");

// An executor of any database.
struct ExecutorFacts {
    std::uint32_t database, role;
    bool idle;      // waits for a job
    bool starting;  // not idle yet, but will be soon
    bool leaving;   // was asked to leave
    Micros since;   // when the executor became idle or, if it is not idle, when it occupied its process slot
    Micros asked;   // when the executor was asked to leave
};
static_assert(std::is_trivially_copyable_v<ExecutorFacts>, "may live where a longjmp skips destructors");

// A database in which handlers are waiting for an executor.
struct ExecutorWaitFacts {
    std::uint32_t database;  // 0 if this entry is unused
    Micros since;
    Micros seen;  // when the background worker of the database last confirmed the wait
};
static_assert(std::is_trivially_copyable_v<ExecutorWaitFacts>, "lives in shared memory");

// Returns the index of the database that has waited longest, or -1 if no database is waiting. A wait expires if the
// background worker has not confirmed it for `kept` microseconds, because a worker can exit without removing its wait.
int longest_wait(const ExecutorWaitFacts *waits, int count, Micros kept, Micros now) noexcept;
// Returns the number of databases that have waited longer than `database`. If `database` is not waiting yet, its wait
// begins now.
int databases_ahead(std::uint32_t database, const ExecutorWaitFacts *waits, int count, Micros kept,
                    Micros now) noexcept;

struct ExecutorPlan {
    int start;      // index of the pool that gets a new executor, or -1
    int leave;      // index of the executor that must leave after its current job, or -1
    bool shortage;  // a pool waits for a process slot
};
static_assert(std::is_trivially_copyable_v<ExecutorPlan>, "may live where a longjmp skips destructors");

// Plans one step. The caller carries out the step and calls the function again. All pools belong to `database`. The
// first pool in the array that wants an executor is served first, so the caller must rotate the array to let the pools
// take turns.
//
// If all process slots are occupied, an executor of another pool must leave: the executor that has been idle for the
// longest time or, if no executor is idle, an executor that has occupied its slot for at least kSlice. This way, pools
// without an executor take turns. If an executor that was asked to leave more than kSlice ago is still running, its job
// might take a long time, so another executor is also asked to leave. `ahead` is the number of databases that have
// waited longer than `database`. The function leaves `ahead` slots free for these databases, so that databases take
// turns as well.
constexpr Micros kSlice = kSecond;
ExecutorPlan plan_executors(std::uint32_t database, const PoolFacts *pools, int pool_count,
                            const ExecutorFacts *executors, int executor_count, int max_executors, int ahead,
                            Micros now) noexcept;

// How the rescue ends the attempt of a running job.
enum class RescueEnd : std::uint8_t {
    Lost,           // the attempt counts, because the job may have killed the executor
    LostInCompany,  // one of several jobs that were lost together; the job becomes a suspect, so it must run alone
    GivenBack,      // the attempt does not count, because the job is not to blame
    Overran,        // the job exceeded max_runtime, so its executor was terminated
    CancelForced,   // the worker did not stop after a cancellation request; never returned by end_of_orphan()
};
// Returns what happens to a running job whose executor is gone. `orphans` is the number of jobs that lost their
// executors at the same time, for example in a server crash. If a suspect is among these jobs, it is blamed for the
// loss, because only one suspect runs at a time (leases/suspects.h). `blameless` means that the executor had been asked
// to leave or had not started the job. `overran` means that the job had exceeded its max_runtime when its executor
// exited.
RescueEnd end_of_orphan(int orphans, bool suspect, bool blameless, bool overran) noexcept;

// Limits at which an executor process exits: idle time, number of executed jobs, and bytes of memory.
constexpr Micros kWarm = kMinute;
constexpr int kJobsOfExecutor = 100000;
constexpr std::int64_t kBytesOfExecutor = std::int64_t{256} << 20;
// How long an executor claims jobs for one handler before the other handlers of the role get a turn.
constexpr Micros kTurn = kSecond;

}  // namespace jobq::core
