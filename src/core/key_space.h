// The key spaces for which shared memory remembers ranges without visible rows, which scans skip
// (lanes/empty_ranges.h). Each key space corresponds to an index that contains the rows that a scan needs, in the order
// of their keys.
#pragma once

#include "core/claim_key.h"

namespace jobq::core {

enum class KeySpace : std::uint8_t {
    Claimable,  // the claimable jobs of one lane
    Throttled,  // the same, without the jobs that the limits of their keys hold back
    Due,        // jobs that become claimable at run_at; the priority is 0
    Running,    // running jobs in the index that the rescue scans, by id; run_at and priority are 0
    Schedules,  // schedules, by _due_at; id and priority are 0
};
constexpr int kKeySpaces = 5;

constexpr ClaimKey due_key(std::int64_t run_at, std::int64_t id) noexcept { return {run_at, id, 0}; }
constexpr ClaimKey running_key(std::int64_t id) noexcept { return {0, id, 0}; }
constexpr ClaimKey schedule_key(std::int64_t due_at) noexcept { return {due_at, 0, 0}; }

}  // namespace jobq::core
