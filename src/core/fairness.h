// Orders of the claim other than (priority, time, id), for queues that ask for them. Pure functions.
//
// Ageing: each `ageing` of waiting time counts like one step of priority. All waiting jobs age at the same rate, so
// their order never changes while they wait: it is the order of run_at + priority * ageing. Jobs of one priority have
// the order of the claim index, so a claim compares only the first job of each priority.
//
// Round robin: the concurrency keys of a queue take turns in the order of their hashes, and each gets one job per turn.
#pragma once

#include "core/claim_key.h"
#include "core/keyed_hash.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// Returns whether the job at `a` comes before the job at `b`.
bool aged_before(const ClaimKey &a, const ClaimKey &b, Micros ageing) noexcept;

// Returns the last key of this priority at which a job comes before the job at `other`.
ClaimKey aged_limit(std::int16_t priority, const ClaimKey &other, Micros ageing) noexcept;

// Returns the position of a concurrency key among the keys of its queue: a keyed hash, never negative.
std::int64_t round_robin_hash(const HashKey &secret, std::string_view concurrency_key) noexcept;
constexpr std::int64_t kBeforeFirstRoundRobinKey = -1;

// A claim's round through the keys.
struct Round {
    std::int64_t at;     // the key that was visited last
    std::int64_t start;  // no job has been found since the visit to this key
    bool wrapped;        // the round has passed the last key
};
static_assert(std::is_trivially_copyable_v<Round>, "may live where a longjmp skips destructors");

Round begin_round(std::int64_t at) noexcept;
// Goes to `key`, which the caller has found as the first key after `at`, or as the very first key if none comes after
// `at`. Returns false if all keys have been visited since the last job was found, so that no key has a job.
bool go_to(Round *round, std::int64_t key) noexcept;
// Records that the visited key had a job, so that a full round begins again.
void found_job(Round *round) noexcept;

}  // namespace jobq::core
