// The vocabulary of jobq: leases, and limits on what callers may pass. Statuses are in job_status_policy.h, the
// decisions of a job's life in life_policy.h, defaults in queues/queue_settings_policy.h.
// Pure: no server header, no clock, no randomness, no allocation; everything is noexcept, so that nothing is ever
// thrown through the server. Used by every layer above.
#pragma once

#include "base/span.h"
#include "job/job_status_policy.h"

#include <cstddef>
#include <cstdint>

namespace jobq::core {

// The timeout of a lease that no clock ends, since its holder is a process of this server (shmem/executors.h): longer
// than anybody may ask for.
constexpr Micros kEndlessLease = 365000 * kDay;
// The timeout of a lease whose row has none: what rows mean, whatever the default of heartbeat_timeout is.
constexpr Micros kUsualLease = 60 * kSecond;
// The same two in statements.
#define ENDLESS_LEASE "interval '365000 days'"
#define USUAL_LEASE "interval '60 seconds'"

// What became of a lease that is not held.
enum class Unheld : std::uint8_t {
    Lost,      // it was taken away, or never was one
    Finished,  // a report under it ended its attempt
    Gone,      // there is no such job, and nothing is known of its leases
};

// The queue of a job, a claim and a wait that name none: in src/sql and in jobq_enqueue_jobs.
constexpr const char *kDefaultQueue = "default";

// Limits on what callers may pass.
constexpr std::size_t kMaxQueueBytes = 63;
constexpr std::size_t kMaxKindBytes = 255;
constexpr std::size_t kMaxWorkerBytes = 255;
constexpr std::size_t kMaxCapabilityBytes = 63;
constexpr int kMaxCapabilities = 64;           // that a job requires
constexpr int kMaxNames = 1000;                // kinds, versions, capabilities or queues that a worker or handler names
constexpr std::size_t kMaxErrorBytes = 32768;  // longer error texts are cut at a character boundary
constexpr int kMaxBatch = 99999;               // ids in one call, jobs in one claim
constexpr int kMaxEnqueue = 1000000;           // jobs in one enqueue
constexpr int kMaxAttempts = 1000000000;       // starts of one job

// A lease made of 64 random bits: positive and below 2^53, so that JSON clients keep it exactly.
std::int64_t lease_from_random(std::uint64_t random) noexcept;

// How often a worker should heartbeat, in whole seconds: a third of the timeout, at least 1.
int heartbeat_seconds(Micros timeout) noexcept;

}  // namespace jobq::core
