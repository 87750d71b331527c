// The key spaces. Each key space corresponds to an index that contains the rows that a scan looks for, in the order of
// their keys. For each key space, shared memory stores the ranges of keys that have no visible rows, so that scans can
// skip these ranges (lanes/empty_ranges.h).
#pragma once

#include "core/claim_key.h"

namespace jobq::core {

enum class KeySpace : std::uint8_t {
    Claimable,  // the claimable jobs of one lane
    Throttled,  // the claimable jobs of one lane, except jobs that the limits of their concurrency keys hold back
    Due,        // jobs that become claimable at run_at; the priority is 0
    Running,    // running jobs in the index that the rescue scans, by id; run_at and priority are 0
    Schedules,  // schedules, by _due_at; id and priority are 0
};
constexpr int kKeySpaces = 5;

constexpr ClaimKey due_key(std::int64_t run_at, std::int64_t id) noexcept { return {run_at, id, 0}; }
constexpr ClaimKey running_key(std::int64_t id) noexcept { return {0, id, 0}; }
constexpr ClaimKey schedule_key(std::int64_t due_at) noexcept { return {due_at, 0, 0}; }

}  // namespace jobq::core
