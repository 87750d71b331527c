// Decides what happens to a job whose attempt ended without completing the job. Times and random numbers are arguments.
#pragma once

#include "core/job.h"

#include <type_traits>

namespace jobq::core {

// Returns the number of the attempt that a claim begins if the job has had `attempts` attempts. The result is between 1
// and kMaxAttempts even if the row contains an invalid number.
int next_attempt(int attempts) noexcept;

struct RetryPolicy {
    Micros base;  // delay after the first attempt
    Micros max;   // maximum delay
    SpanList delays =
        {};  // the delays after attempt 1, 2, ...; the last delay repeats; replaces base and max unless empty
};
static_assert(std::is_trivially_copyable_v<RetryPolicy>, "may live where a longjmp skips destructors");

// Returns the delay after attempt number `attempt` (the first is 1): the delay in the list or, if the list is empty,
// min(max, base * 2^(attempt-1)). The delay is varied by up to 10 percent in either direction depending on `random`, so
// that jobs that failed together are not retried together. The longest delay is therefore 1.1 times the maximum. The
// result is never negative and never overflows. An attempt below 1 counts as 1; a negative delay, base, or max counts
// as 0.
Micros backoff(const RetryPolicy &policy, int attempt, std::uint32_t random) noexcept;

// Returns the status of a job after its worker has reported a failure: Cancelled if a cancellation was requested;
// otherwise Scheduled if attempts are left and the worker wants a retry; otherwise Failed.
JobStatus after_failure(int attempts, int max_attempts, bool wants_retry, bool cancel_requested) noexcept;

// Returns the status of a job after its worker has disappeared: Cancelled if a cancellation was requested; Failed if no
// attempts are left, or if the job was lost alone and `lost_attempts`, which includes this loss, has reached
// `max_lost`; otherwise Pending. If the worker lost several jobs together (`in_company`), the attempt counts, but not
// as a loss, because any of the jobs might have killed the worker.
JobStatus after_loss(int attempts, int max_attempts, int lost_attempts, int max_lost, bool in_company,
                     bool cancel_requested) noexcept;

// The last sign of life that a worker has sent for a job (the claim or the last heartbeat), and the time that must pass
// without another sign before the worker is presumed dead.
struct LastSign {
    std::int64_t worker;
    Micros at;
    Micros timeout;
    bool lost;  // true: the job has just been found lost; false: it is presumed to be still running
};
static_assert(std::is_trivially_copyable_v<LastSign>, "may live where a longjmp skips destructors");

bool earlier_sign(const LastSign &a, const LastSign &b) noexcept;

// Sets in_company[i] for each job that was presumably lost together with another job of the same worker: the last signs
// of the two jobs are at most half a timeout apart, and at least one of the jobs is lost. (A living worker sends a
// heartbeat for each job every third of the timeout.) `signs` must be sorted by earlier_sign.
void find_company(const LastSign *signs, int count, bool *in_company) noexcept;

// Returns the status of a waiting job: Pending if it is due now, else Scheduled.
JobStatus waiting_status(Micros run_at, Micros now) noexcept;

// Returns the run_at of the n-th job of a paced enqueue, where job number 0 runs at `first` and `per_second` jobs
// become due each second. If `per_second` is 0 or less, all jobs run at `first`. The result is never earlier than the
// result for the previous job, and never later than kLatest.
Micros paced(Micros first, std::int64_t n, double per_second) noexcept;
// Maximum time between the first and the last job of a paced enqueue. A rate at which the jobs would take longer is
// rejected, because it must be a mistake.
constexpr Micros kLongestPacing = 3650 * kDay;

}  // namespace jobq::core
