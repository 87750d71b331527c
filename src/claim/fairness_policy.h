// Other orders of the claim than (priority, time, id), for queues that want them. Pure.
//
// Ageing: each `ageing` of waiting counts like one step of priority. What a job has waited grows for all jobs alike, so
// their order never changes while they wait: it is that of run_at + priority * ageing. Among jobs of one priority it
// is the order of the claim index, so only the heads of the priorities need to be compared.
//
// Round robin: the keys of a queue, in the order of their hashes, get a job each in turn, round and round.
#pragma once

#include "base/keyed_hash.h"
#include "lanes/claim_key_policy.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// Whether the job at `a` comes before the one at `b`.
bool aged_before(const ClaimKey &a, const ClaimKey &b, Micros ageing) noexcept;

// The last key of this priority at which a job comes before the one at `other`.
ClaimKey aged_limit(std::int16_t priority, const ClaimKey &other, Micros ageing) noexcept;

// Returns the place of a concurrency key among the keys of its queue: a keyed hash, never negative.
std::int64_t round_robin_hash(const HashKey &secret, std::string_view concurrency_key) noexcept;
constexpr std::int64_t kBeforeFirstRoundRobinKey = -1;

// A claim's way round the keys.
struct Round {
    std::int64_t at;     // the key that was served last
    std::int64_t start;  // since this one no job has been found
    bool wrapped;        // and the last key has been passed
};
static_assert(std::is_trivially_copyable_v<Round>, "may live where a longjmp skips destructors");

Round begin_round(std::int64_t at) noexcept;
// Goes to `key`, the next one: the first behind `at`, or the very first when there is none. False when all keys have
// been visited since the last job: none has one.
bool go_to(Round *round, std::int64_t key) noexcept;
// The key had a job.
void found_job(Round *round) noexcept;

}  // namespace jobq::core
