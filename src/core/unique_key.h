// Unique jobs: what becomes of an enqueue whose key another job has. Pure decisions.
#pragma once

#include "core/job.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxUniqueKeyBytes = 1024;
constexpr Micros kMaxUniqueFor = 36500 * kDay;

// The caller's choice, by the names that jobq_enqueue documents.
enum class OnConflict : std::uint8_t { Ignore, Replace, Error };
constexpr std::string_view kOnConflictNames[] = {"ignore", "replace", "error"};

enum class Conflict : std::uint8_t {
    Existing,  // the caller gets the job that is there
    Change,    // that job gets what is new, in its place
    TakeKey,   // that job goes on without the key, which a new job gets
    Refuse,    // an error
};

// What happens when a job of this status has the key; `started`: it has saved steps, and is left alone like one that
// runs. A finished one has lost its right to it: it only holds a key that a change behind the triggers' back has left
// there.
Conflict resolve_conflict(OnConflict choice, JobStatus holder, bool started = false) noexcept;

// Until when the key of a job that finishes now stays taken.
Micros kept_until(Micros now, Micros unique_for) noexcept;

// The order in which keys are taken, the same in all sessions: by queue, then by key, as bytes.
bool key_before(std::string_view queue_a, std::string_view key_a, std::string_view queue_b,
                std::string_view key_b) noexcept;

}  // namespace jobq::core
