// Decides what an enqueue does if another job already holds the unique key of the new job.
#pragma once

#include "core/job.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxUniqueKeyBytes = 1024;
constexpr Micros kMaxUniqueFor = 36500 * kDay;

// The caller's choice, passed to jobq_enqueue as one of these names.
enum class OnConflict : std::uint8_t { Ignore, Replace, Error };
constexpr std::string_view kOnConflictNames[] = {"ignore", "replace", "error"};

enum class Conflict : std::uint8_t {
    Existing,  // the caller gets the existing job
    Change,    // the existing job is changed and keeps its id
    TakeKey,   // the existing job continues without the key, and a new job gets it
    Refuse,    // the enqueue raises an error
};

// Decides what happens if a job with the status `holder` holds the key. `started` means that this job has saved steps.
// A job that is running or has saved steps is not changed. A finished job holds its key only after a change that
// bypassed the triggers.
Conflict resolve_conflict(OnConflict choice, JobStatus holder, bool started = false) noexcept;

// Returns the time until which the key of a job that finishes now stays reserved.
Micros kept_until(Micros now, Micros unique_for) noexcept;

// Returns whether key a comes before key b. Keys are ordered by queue and then by key, as bytes. All sessions acquire
// keys in this order, so that they cannot deadlock.
bool key_before(std::string_view queue_a, std::string_view key_a, std::string_view queue_b,
                std::string_view key_b) noexcept;

}  // namespace jobq::core
