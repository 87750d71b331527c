// Decides how many workers a queue needs so that its jobs start within a target time.
#pragma once

#include "core/clock.h"

#include <cstdint>

namespace jobq::core {

// The jobs of a queue that need a worker.
struct Workload {
    std::int64_t pending;  // claimable jobs
    std::int64_t running;
    Micros duration;  // mean running time of a job
    Micros target;    // how long a job may wait
    bool overdue;     // whether a claimable job has waited longer than the target
};

// How many more jobs the limits allow to start.
struct Room {
    std::int64_t at_once;  // to run at the same time as the jobs that are running
    std::int64_t starts;   // within the target
};

// Returns how many jobs should run at the same time if there were no limits. By Little's law, a job that becomes
// claimable now starts after pending * duration / slots if this number of slots is busy.
std::int64_t slots_needed(const Workload &load) noexcept;
// Returns how many jobs should run at the same time. The result is never less than the number of running jobs, because
// each of these jobs still needs its worker.
std::int64_t slots_wanted(const Workload &load, const Room &room) noexcept;
// Returns how many workers run this number of jobs if each of them runs up to `slots_per_worker` jobs at a time.
std::int32_t workers_for(std::int64_t slots, std::int32_t slots_per_worker) noexcept;

}  // namespace jobq::core
