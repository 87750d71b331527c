// See executor_policy.h.
#include "handlers/executor_policy.h"

#include "core/stable_hash.h"

namespace jobq::core {

namespace {

bool is_of(const ExecutorFacts &executor, std::uint32_t database, std::uint32_t role) {
    return executor.database == database && executor.role == role;
}

// Returns whether an executor of the pool is idle or starting. Such an executor will search for a job, so the pool does
// not need another executor.
bool has_one_free(std::uint32_t database, std::uint32_t role, const ExecutorFacts *executors, int count) {
    for (int i = 0; i < count; i++)
        if (is_of(executors[i], database, role) && !executors[i].leaving &&
            (executors[i].idle || executors[i].starting))
            return true;
    return false;
}

// Returns whether executor `a` should leave rather than executor `b`. An idle executor leaves before a busy executor;
// otherwise, the executor with the earlier `since` leaves first.
bool rather(const ExecutorFacts &a, const ExecutorFacts &b) {
    if (a.idle != b.idle) return a.idle;
    return a.since < b.since;
}

// Returns the index of the executor that must leave to make room for an executor of `role`. Returns -1 if no executor
// can leave, or if an executor is already leaving. `surplus` means that more executors run than jobq.max_executors
// allows.
int who_leaves(std::uint32_t database, std::uint32_t role, const ExecutorFacts *executors, int count, bool surplus,
               Micros now) {
    int best = -1;
    for (int i = 0; i < count; i++) {
        const ExecutorFacts &executor = executors[i];
        const Micros asked_for = now - executor.asked;
        if (executor.leaving && asked_for >= 0 && asked_for < kSlice) return -1;
        if (executor.leaving || executor.starting) continue;
        const bool may_go = surplus || (!is_of(executor, database, role) &&
                                        (executor.idle || executor.since <= saturating_subtract(now, kSlice)));
        if (may_go && (best < 0 || rather(executor, executors[best]))) best = i;
    }
    return best;
}

// Returns whether the database is still waiting, which means that the wait has not expired. `seen` can be slightly
// later than `now`, because another worker can set `seen` after `now` was read.
bool still_waits(const ExecutorWaitFacts &wait, Micros kept, Micros now) {
    return wait.database != 0 && wait.seen <= now + kSecond && now - wait.seen <= kept;
}

}  // namespace

std::uint64_t handler_hash(std::string_view queue, std::string_view kind) noexcept {
    return static_cast<std::uint64_t>(stable_hash(queue, kind));
}

int longest_wait(const ExecutorWaitFacts *waits, int count, Micros kept, Micros now) noexcept {
    int longest = -1;
    for (int i = 0; i < count; i++)
        if (still_waits(waits[i], kept, now) && (longest < 0 || waits[i].since < waits[longest].since)) longest = i;
    return longest;
}

int databases_ahead(std::uint32_t database, const ExecutorWaitFacts *waits, int count, Micros kept,
                    Micros now) noexcept {
    Micros since = now;
    for (int i = 0; i < count; i++)
        if (waits[i].database == database && still_waits(waits[i], kept, now)) since = waits[i].since;
    int ahead = 0;
    for (int i = 0; i < count; i++)
        ahead += waits[i].database != database && still_waits(waits[i], kept, now) &&
                 (waits[i].since < since || (waits[i].since == since && waits[i].database < database));
    return ahead;
}

ExecutorPlan plan_executors(std::uint32_t database, const PoolFacts *pools, int pool_count,
                            const ExecutorFacts *executors, int executor_count, int max_executors, int ahead,
                            Micros now) noexcept {
    ExecutorPlan plan = {-1, -1, false};
    int wanting = -1;
    for (int i = 0; i < pool_count && wanting < 0; i++)
        if (pools[i].wants_one && !pools[i].rests && !has_one_free(database, pools[i].role, executors, executor_count))
            wanting = i;
    const bool surplus = executor_count > max_executors;
    if (wanting >= 0 && executor_count + ahead < max_executors) {
        plan.start = wanting;
    } else if (wanting >= 0 && executor_count < max_executors) {
        plan.shortage = true;
    } else if (wanting >= 0 || surplus) {
        plan.shortage = wanting >= 0;
        plan.leave =
            who_leaves(database, wanting >= 0 ? pools[wanting].role : 0, executors, executor_count, surplus, now);
    }
    return plan;
}

RescueEnd end_of_orphan(int orphans, bool suspect, bool blameless, bool overran) noexcept {
    if (blameless) return RescueEnd::GivenBack;
    if (overran) return RescueEnd::Overran;
    return orphans == 1 || suspect ? RescueEnd::Lost : RescueEnd::LostInCompany;
}

}  // namespace jobq::core
