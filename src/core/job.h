// Defines leases, the default queue, and limits on arguments. job_status.h defines the statuses, life.h decides what
// happens to a job during its life, and queue_settings.h defines the defaults of queues. Every function in this
// directory is noexcept, so that no exception passes through the server.
#pragma once

#include "core/job_status.h"
#include "core/span.h"

#include <cstddef>
#include <cstdint>

namespace jobq::core {

// Timeout of a lease that never expires. The holder of such a lease is a process of this server
// (handlers/executor_slots.h), and the server notices when the process exits. The value is longer than any timeout that
// a caller may request.
constexpr Micros kEndlessLease = 365000 * kDay;
// Timeout of a lease if lease_timeout is NULL in the job's row. This value must not change when the default of
// heartbeat_timeout changes, because it defines the meaning of existing rows.
constexpr Micros kUsualLease = 60 * kSecond;
// kEndlessLease and kUsualLease as SQL expressions.
#define ENDLESS_LEASE "interval '365000 days'"
#define USUAL_LEASE "interval '60 seconds'"

// The reason why a worker does not hold a lease.
enum class Unheld : std::uint8_t {
    Lost,      // the lease was taken away or never existed
    Finished,  // the worker has reported the end of the attempt with this lease
    Gone,      // the job does not exist, and nothing is known about its leases
};

// Name of the queue that an enqueue, a claim, or a wait uses if the caller names no queue. The functions in src/sql
// have the same default.
constexpr const char *kDefaultQueue = "default";

// Limits on function arguments.
constexpr std::size_t kMaxQueueBytes = 63;
constexpr std::size_t kMaxKindBytes = 255;
constexpr std::size_t kMaxWorkerBytes = 255;
constexpr std::size_t kMaxCapabilityBytes = 63;
// Maximum number of capabilities that a job may require.
constexpr int kMaxCapabilities = 64;
// Maximum number of kinds, versions, capabilities, or queues that a worker or handler may list.
constexpr int kMaxNames = 1000;
constexpr std::size_t kMaxErrorBytes = 32768;  // longer error texts are truncated at a character boundary
// Maximum size of the details of a failed attempt. It is a constant, because a setting could be lower than what the
// client libraries send. They send at most 16 kB of JSON text, which jsonb stores in less than 8 times as many bytes.
constexpr int kMaxDetailsKb = 128;
constexpr int kMaxBatch = 99999;          // maximum number of ids in one call and of jobs in one claim
constexpr int kMaxEnqueue = 1000000;      // maximum number of jobs in one enqueue
constexpr int kMaxAttempts = 1000000000;  // maximum number of attempts of one job

// Returns a lease that is made from 64 random bits. A lease is a positive number below 2^53, so that JSON clients can
// represent it exactly.
std::int64_t lease_from_random(std::uint64_t random) noexcept;

// Returns the interval at which a worker should send heartbeats, in whole seconds. The interval is a third of the
// timeout, but at least 1 second.
int heartbeat_seconds(Micros timeout) noexcept;

}  // namespace jobq::core
