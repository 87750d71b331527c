// Decides whether new jobs may enter a queue that has a max_depth, and how many older jobs must be dropped to make
// room.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

// What happens if there is no room for a job. The values have the same order as the words of the setting on_full in
// core/queue_settings.h.
enum class FullPolicy : std::uint8_t { Reject, DropOldest };

// Maximum number of jobs that a call drops in addition to the number of jobs that it adds. After max_depth has been
// lowered, a queue can contain millions of excess jobs, and a producer must not wait until all of them are dropped.
// Each later call drops some more.
constexpr std::int64_t kMaxExtraDrops = 100;

struct Admission {
    bool admitted;
    std::int64_t drop;    // number of the oldest jobs to drop; fewer are dropped if the queue has fewer droppable jobs
    std::int64_t needed;  // minimum number to drop; if fewer can be dropped, the new jobs are rejected
};
static_assert(std::is_trivially_copyable_v<Admission>, "may live where a longjmp skips destructors");

// Decides whether `added` jobs may enter a queue in which `depth` jobs are waiting. Always rejects a call that adds
// more than `max_depth` jobs.
Admission admit(std::int64_t depth, std::int64_t added, std::int64_t max_depth, FullPolicy policy) noexcept;

}  // namespace jobq::core
