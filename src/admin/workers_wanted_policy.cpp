#include "admin/workers_wanted_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace jobq::core {

namespace {

// More slots than any server can serve, so that the arithmetic cannot overflow.
constexpr double kMostSlots = 1e9;

std::int64_t whole(double slots) noexcept { return static_cast<std::int64_t>(std::min(slots, kMostSlots)); }

std::int64_t slots_for(const Workload &load, std::int64_t starts) noexcept {
    const double rounds = static_cast<double>(load.duration) / static_cast<double>(load.target);
    std::int64_t slots = whole(std::ceil(static_cast<double>(starts) * rounds));
    if (load.overdue) slots = std::max(slots, load.running + 1);
    // A slot without a job is of no use, even if the jobs run for a long time.
    slots = std::min(slots, load.running + starts);
    return std::max(slots, load.running);
}

}  // namespace

std::int64_t slots_needed(const Workload &load) noexcept { return slots_for(load, load.pending); }

std::int64_t slots_wanted(const Workload &load, const Room &room) noexcept {
    const std::int64_t starts = std::min(load.pending, room.starts);
    return std::min(slots_for(load, starts), load.running + std::min(room.at_once, starts));
}

std::int32_t workers_for(std::int64_t slots, std::int32_t slots_per_worker) noexcept {
    const std::int64_t workers = slots / slots_per_worker + (slots % slots_per_worker > 0 ? 1 : 0);
    return static_cast<std::int32_t>(std::min<std::int64_t>(workers, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace jobq::core
