// The vocabulary of jobq: leases, and limits on arguments. Statuses are in job_status.h, the decisions about a job's
// life in life.h, and defaults in queue_settings.h. Pure. Every function is noexcept, so that no exception passes
// through the server.
#pragma once

#include "core/job_status.h"
#include "core/span.h"

#include <cstddef>
#include <cstdint>

namespace jobq::core {

// Timeout of a lease that never expires, because its holder is a process of this server (shmem/executors.h), whose exit
// the server notices. Longer than any timeout that a caller may request.
constexpr Micros kEndlessLease = 365000 * kDay;
// Timeout of a lease if lease_timeout is NULL in the row of the job. Because it defines the meaning of existing rows,
// it does not depend on the default of heartbeat_timeout.
constexpr Micros kUsualLease = 60 * kSecond;
// The same two timeouts in SQL statements.
#define ENDLESS_LEASE "interval '365000 days'"
#define USUAL_LEASE "interval '60 seconds'"

// The reason why a lease is not held.
enum class Unheld : std::uint8_t {
    Lost,      // the lease was taken away or never existed
    Finished,  // the worker has reported the end of the attempt with this lease
    Gone,      // the job does not exist, and nothing is known about its leases
};

// The queue of jobs, claims, and waits that do not name a queue. The functions in src/sql have the same default.
constexpr const char *kDefaultQueue = "default";

// Limits on arguments.
constexpr std::size_t kMaxQueueBytes = 63;
constexpr std::size_t kMaxKindBytes = 255;
constexpr std::size_t kMaxWorkerBytes = 255;
constexpr std::size_t kMaxCapabilityBytes = 63;
// Maximum number of capabilities that a job may require.
constexpr int kMaxCapabilities = 64;
// Maximum number of kinds, versions, capabilities, or queues that a worker or handler may name.
constexpr int kMaxNames = 1000;
constexpr std::size_t kMaxErrorBytes = 32768;  // longer error texts are truncated at a character boundary
constexpr int kMaxBatch = 99999;               // maximum number of ids in one call and of jobs in one claim
constexpr int kMaxEnqueue = 1000000;           // maximum number of jobs in one enqueue
constexpr int kMaxAttempts = 1000000000;       // maximum number of attempts of one job

// Returns a lease made of 64 random bits: positive and below 2^53, so that JSON clients represent it exactly.
std::int64_t lease_from_random(std::uint64_t random) noexcept;

// Returns the interval in which a worker should send heartbeats, in whole seconds: a third of the timeout, at least 1.
int heartbeat_seconds(Micros timeout) noexcept;

}  // namespace jobq::core
