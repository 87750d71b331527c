// The position of a claimable job among the jobs of its lane. Positions are ordered by priority number (lowest first),
// then by the time at which the job became claimable, then by id.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

struct ClaimKey {
    std::int64_t run_at;
    std::int64_t id;
    std::int16_t priority;
};
static_assert(std::is_trivially_copyable_v<ClaimKey>, "lives in shared memory");

constexpr ClaimKey kFirstKey = {INT64_MIN, INT64_MIN, INT16_MIN};
constexpr ClaimKey kLastKey = {INT64_MAX, INT64_MAX, INT16_MAX};

constexpr bool operator<(const ClaimKey &a, const ClaimKey &b) noexcept {
    if (a.priority != b.priority) return a.priority < b.priority;
    if (a.run_at != b.run_at) return a.run_at < b.run_at;
    return a.id < b.id;
}
constexpr bool operator==(const ClaimKey &a, const ClaimKey &b) noexcept { return !(a < b) && !(b < a); }
constexpr bool operator<=(const ClaimKey &a, const ClaimKey &b) noexcept { return !(b < a); }

// Returns the key immediately after `key`, or kLastKey if `key` is kLastKey.
constexpr ClaimKey next_key(ClaimKey key) noexcept {
    if (key == kLastKey) return key;
    if (key.id != INT64_MAX) return {key.run_at, key.id + 1, key.priority};
    if (key.run_at != INT64_MAX) return {key.run_at + 1, INT64_MIN, key.priority};
    return {INT64_MIN, INT64_MIN, static_cast<std::int16_t>(key.priority + 1)};
}

}  // namespace jobq::core
