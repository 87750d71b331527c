// What happens to a job whose attempt ended without completing. Pure decisions: time and randomness are arguments.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

// Returns the number of the attempt that a claim begins after this many attempts. The result is between 1 and
// kMaxAttempts, whatever the row contains.
int next_attempt(int attempts) noexcept;

struct RetryPolicy {
    Micros base;  // delay after the first attempt
    Micros max;   // maximum delay
};
static_assert(std::is_trivially_copyable_v<RetryPolicy>, "may live where a longjmp skips destructors");

// Returns the delay after attempt number `attempt` (the first is 1): min(max, base * 2^(attempt-1)), then +-10 % by
// `random`, which spreads the retries of jobs that failed together, so that the longest delay is 1.1 * max. Never
// negative, never overflows; an attempt below 1 counts as 1, a negative base or max as 0.
Micros backoff(const RetryPolicy &policy, int attempt, std::uint32_t random) noexcept;

// Returns the status after a reported failure: Cancelled if a cancellation was requested, else Scheduled while attempts
// are left and the worker wants a retry, else Failed.
JobStatus after_failure(int attempts, int max_attempts, bool wants_retry, bool cancel_requested) noexcept;

// Returns the status after the worker disappeared: Cancelled if a cancellation was requested, Failed if the attempts
// are exhausted or if the job was lost alone and its losses are exhausted (`lost_attempts` counts this one), else
// Pending again at once. A loss in company counts as an attempt but not as a loss, because any of the jobs may have
// killed the worker.
JobStatus after_loss(int attempts, int max_attempts, int lost_attempts, int max_lost, bool in_company,
                     bool cancel_requested) noexcept;

// The last sign of life of a job's worker, and the silence after which the worker is lost.
struct LastSign {
    std::int64_t worker;
    Micros at;
    Micros timeout;
    bool lost;  // true: the job is lost now; false: it still runs, as far as is known
};
static_assert(std::is_trivially_copyable_v<LastSign>, "may live where a longjmp skips destructors");

bool earlier_sign(const LastSign &a, const LastSign &b) noexcept;

// Sets in_company[i] for the jobs that went silent together with another job of the same worker: the later sign came at
// most half a timeout after the earlier one. A living worker sends a sign for each job in a third of the timeout. Only
// pairs with at least one lost job count. `signs` must be sorted by earlier_sign.
void find_company(const LastSign *signs, int count, bool *in_company) noexcept;

// Returns whether a job that has already lost a worker may still kill the current one, because it has not outlived a
// heartbeat timeout.
bool is_on_trial(Micros started_at, Micros last_heartbeat, Micros timeout) noexcept;

// Returns the status of a waiting job: Pending if it is due now, else Scheduled.
JobStatus waiting_status(Micros run_at, Micros now) noexcept;

// Returns the run_at of the n-th job of a paced enqueue, where job number 0 runs at `first` and `per_second` jobs
// follow each second; if `per_second` is 0 or less, all run at `first`. Never earlier than the previous job, never
// later than kLatest.
Micros paced(Micros first, std::int64_t n, double per_second) noexcept;
// Maximum time between the first and the last job. A rate that needs more is taken for a mistake.
constexpr Micros kLongestPacing = 3650 * kDay;

}  // namespace jobq::core
