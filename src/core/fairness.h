// Alternative orders in which claims take jobs from a queue. If the queue has the setting priority_ageing, claims take
// jobs by aged priority. If it has the setting round_robin, its concurrency keys take turns. Without these settings,
// claims take jobs in the order of priority, run_at, and id.
//
// Ageing: each time a job has waited for `ageing` microseconds, its effective priority rises by one step. All waiting
// jobs age at the same rate, so their order never changes while they wait: they are ordered by run_at + priority *
// ageing. Jobs of the same priority keep the order of the claim index, so a claim compares only the first job of each
// priority.
//
// Round robin: the concurrency keys of a queue take turns in the order of their hashes, and claims take one job of each
// key per turn.
#pragma once

#include "core/claim_key.h"
#include "core/keyed_hash.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// Returns whether the job with key `a` comes before the job with key `b` in the aged order.
bool aged_before(const ClaimKey &a, const ClaimKey &b, Micros ageing) noexcept;

// Returns the last key with this priority that comes before `other` in the aged order.
ClaimKey aged_limit(std::int16_t priority, const ClaimKey &other, Micros ageing) noexcept;

// Returns a keyed hash that determines the position of a concurrency key among the keys of its queue. The result is
// never negative.
std::int64_t round_robin_hash(const HashKey &secret, std::string_view concurrency_key) noexcept;
constexpr std::int64_t kBeforeFirstRoundRobinKey = -1;

// One pass of a claim through the concurrency keys of a queue.
struct Round {
    std::int64_t at;     // the key that was visited last
    std::int64_t start;  // the key that was visited when a job was last found, or the first key
    bool wrapped;        // the pass has continued from the last key to the first
};
static_assert(std::is_trivially_copyable_v<Round>, "may live where a longjmp skips destructors");

Round begin_round(std::int64_t at) noexcept;
// Moves to `key`, which must be the first key after `at`, or the first key of the queue if no key comes after `at`.
// Returns false if all keys have been visited since the last job was found, which means that no key has any more jobs.
bool go_to(Round *round, std::int64_t key) noexcept;
// Records that the visited key had a job, so that all keys are visited once more before the search ends.
void found_job(Round *round) noexcept;

}  // namespace jobq::core
