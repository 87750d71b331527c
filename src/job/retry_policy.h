// What becomes of a job whose attempt ended without completing. Pure decisions: time and randomness are arguments.
#pragma once

#include "job/job_policy.h"

#include <type_traits>

namespace jobq::core {

// The number of the attempt that a claim begins after so many. Whatever the row holds, it counts from 1 to
// kMaxAttempts.
int next_attempt(int attempts) noexcept;

struct RetryPolicy {
    Micros base;  // delay after the first attempt
    Micros max;   // longest delay
};
static_assert(std::is_trivially_copyable_v<RetryPolicy>, "may live where a longjmp skips destructors");

// The delay after attempt number `attempt` (1 is the first): min(max, base * 2^(attempt-1)), then +-10 % by
// `random`, which spreads the retries of jobs that failed together: the longest delay is 1.1 * max. Never negative,
// never overflows; an attempt below 1 counts as 1, a negative base or max as 0.
Micros backoff(const RetryPolicy &policy, int attempt, std::uint32_t random) noexcept;

// The attempt failed and said so.
// Cancelled when a cancellation was asked for, else Scheduled while attempts are left and the worker wants a retry,
// else Failed.
JobStatus after_failure(int attempts, int max_attempts, bool wants_retry, bool cancel_requested) noexcept;

// The worker disappeared. Cancelled when a cancellation was asked for, else Failed when attempts are exhausted, or when
// the job was lost alone and losses are exhausted (`lost_attempts` counts this one), else Pending again at once. A loss
// in company counts as an attempt, not as a loss: any of the jobs may have killed the worker.
JobStatus after_loss(int attempts, int max_attempts, int lost_attempts, int max_lost, bool in_company,
                     bool cancel_requested) noexcept;

// The last sign of life of a job's worker, and after which silence it is lost.
struct LastSign {
    std::int64_t worker;
    Micros at;
    Micros timeout;
    bool lost;  // now; else the job still runs, as far as is known
};
static_assert(std::is_trivially_copyable_v<LastSign>, "may live where a longjmp skips destructors");

bool earlier_sign(const LastSign &a, const LastSign &b) noexcept;

// Which jobs went silent together with another one, that is with the one worker that held both: the later sign came at
// most half a timeout after the earlier one. A worker that lives gives each job a sign in a third of it. Looked for are
// pairs of which one is lost. `signs` is sorted by earlier_sign.
void find_company(const LastSign *signs, int count, bool *in_company) noexcept;

// Whether a job that has lost a worker before may yet be what kills this one: it has not outlived a heartbeat timeout.
bool is_on_trial(Micros started_at, Micros last_heartbeat, Micros timeout) noexcept;

// Due now means claimable now: Pending, else Scheduled.
JobStatus waiting_status(Micros run_at, Micros now) noexcept;

// When the n-th of many jobs runs, where the first, number 0, runs at `first` and `per_second` of them a second; 0 or
// less: all at `first`. Never earlier than the one before, never later than kLatest.
Micros paced(Micros first, std::int64_t n, double per_second) noexcept;
// A rate by which the last of them runs later than that is a mistake.
constexpr Micros kLongestPacing = 3650 * kDay;

}  // namespace jobq::core
