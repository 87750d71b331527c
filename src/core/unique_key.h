// Unique jobs: what happens to an enqueue whose key another job holds. Pure decisions.
#pragma once

#include "core/job.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxUniqueKeyBytes = 1024;
constexpr Micros kMaxUniqueFor = 36500 * kDay;

// The caller's choice. The names are those in the documentation of jobq_enqueue.
enum class OnConflict : std::uint8_t { Ignore, Replace, Error };
constexpr std::string_view kOnConflictNames[] = {"ignore", "replace", "error"};

enum class Conflict : std::uint8_t {
    Existing,  // the caller gets the existing job
    Change,    // the existing job is changed in its place
    TakeKey,   // the existing job continues without the key, and a new job gets it
    Refuse,    // the enqueue raises an error
};

// Decides what happens if a job of this status holds the key. `started` means that it has saved steps; it is then left
// alone like a running job. A finished job has no right to its key and holds one only after a change that bypassed the
// triggers.
Conflict resolve_conflict(OnConflict choice, JobStatus holder, bool started = false) noexcept;

// Returns until when the key of a job that finishes now stays taken.
Micros kept_until(Micros now, Micros unique_for) noexcept;

// The order in which all sessions take keys: by queue, then by key, compared as bytes.
bool key_before(std::string_view queue_a, std::string_view key_a, std::string_view queue_b,
                std::string_view key_b) noexcept;

}  // namespace jobq::core
