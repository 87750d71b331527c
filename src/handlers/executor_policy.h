// Who runs handlers: when an executor is started, which one makes room, and what becomes of a job whose executor has
// gone. Pure: bgw/supervise.cpp and duties/orphans.cpp gather the facts.
#pragma once

#include "job/job_policy.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// What stands for a queue, or a handler, in shared memory: two with the same number, whoever has made them so, share a
// wake-up or, of the same role, a place. Which function a job is given to does not hang on it.
std::uint64_t handler_hash(std::string_view queue, std::string_view kind) noexcept;

// The executors of one role in one database. They are started by that database's worker.
struct PoolFacts {
    std::uint32_t role;
    bool wants_one;  // there is a job that nobody of the pool is about to take
    bool rests;      // the last one could not begin
};
static_assert(std::is_trivially_copyable_v<PoolFacts>, "may live where a longjmp skips destructors");

// An executor of whatever database.
struct ExecutorFacts {
    std::uint32_t database, role;
    bool idle;      // it waits for a job
    bool starting;  // it will do that in a moment
    bool leaving;   // it has been asked to go
    Micros since;   // since when it is idle, or in its place
    Micros asked;   // when that was
};
static_assert(std::is_trivially_copyable_v<ExecutorFacts>, "may live where a longjmp skips destructors");

// A database whose handlers wait for an executor.
struct ExecutorWaitFacts {
    std::uint32_t database;  // 0: none
    Micros since;
    Micros seen;  // when its worker last found that they still wait
};
static_assert(std::is_trivially_copyable_v<ExecutorWaitFacts>, "lives in shared memory");

// Index of the database that has waited longest, -1: none waits. A wait counts for `kept` after its worker has seen it,
// because a worker can end without a word.
int longest_wait(const ExecutorWaitFacts *waits, int count, Micros kept, Micros now) noexcept;
// Number of databases that have waited longer than `database`, which waits from now on if it does not wait yet.
int databases_ahead(std::uint32_t database, const ExecutorWaitFacts *waits, int count, Micros kept,
                    Micros now) noexcept;

struct ExecutorPlan {
    int start;      // index of the pool to start one for, -1: none
    int leave;      // index of the executor that shall go, when it has done what it has in hand; -1: none
    bool shortage;  // a pool waits for a place
};
static_assert(std::is_trivially_copyable_v<ExecutorPlan>, "may live where a longjmp skips destructors");

// One at a time: the caller does it and asks again. The pools are of `database`; the first that wants one comes first,
// so the caller lets them take turns. A place for it is made by an idle executor of another pool, the longest idle
// first; else by one that has been in its place for kSlice, so that pools without an executor take turns. One that was
// asked kSlice ago may have something long in hand: another one is asked. `ahead`: number of databases that have waited
// longer. Free places are left to them, so that databases take turns, too.
constexpr Micros kSlice = kSecond;
ExecutorPlan plan_executors(std::uint32_t database, const PoolFacts *pools, int pool_count,
                            const ExecutorFacts *executors, int executor_count, int max_executors, int ahead,
                            Micros now) noexcept;

// A job that runs, whose executor has gone.
enum class OrphanEnd : std::uint8_t {
    Lost,           // it may have killed it: this counts
    LostInCompany,  // as one of several; it is a suspect from now on
    GivenBack,      // it is not to blame: the attempt does not count
    Overran,        // its time was over: it was ended for that
};
// `orphans`: so many are found together, as after a crash of the server. One that was a suspect is to blame before the
// others are: of suspects one at a time runs (leases/suspects.h). `blameless`: the executor was told to go, or had not
// begun with the job. `overran`: its max_runtime was over when its executor
// ended by itself.
OrphanEnd end_of_orphan(int orphans, bool suspect, bool blameless, bool overran) noexcept;

// When an idle executor ends, and one that has run so much.
constexpr Micros kWarm = kMinute;
constexpr int kJobsOfExecutor = 100000;
constexpr std::int64_t kBytesOfExecutor = std::int64_t{256} << 20;
// Time for which an executor claims jobs of one handler before the other handlers of the role have their turn.
constexpr Micros kTurn = kSecond;

}  // namespace jobq::core
