// The argument `worker_info`, with which a worker describes itself when it waits, claims, or sends heartbeats. It is a
// JSON object whose known keys are checked. All other keys are accepted, so that a newer client library works with an
// older server; the view jobq.workers shows them.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "core/job.h"
#include "queues/scope.h"

#include <string_view>

namespace jobq {

// Time after which a worker that has not called any function disappears, if its worker_info does not say otherwise.
constexpr core::Micros kWorkerExpiry = core::kMinute;

struct WorkerInfo {
    std::string_view worker_id;
    Names queues;
    Names patterns;  // of queues; `others` contains them too
    Names kinds;     // `items` is nullptr if the worker does not list its kinds
    int slots;       // 0: unknown
    std::string_view client;
    const Jsonb *others;  // an object with the keys that jobq does not know; nullptr: there are none

    // Set only by check_worker_info(), because their conversion can depend on settings of the session.
    TimestampTz started_at;  // DT_NOBEGIN: unknown
    core::Micros expires_in;
};

// Returns the contents of an argument. Raises 22023 if a known key is missing or has an invalid value, or the error
// that an argument of a function raises for the same name, interval, or time.
WorkerInfo check_worker_info(const Jsonb *info);
// Returns the contents of an object that check_worker_info() has checked.
WorkerInfo read_worker_info(const Jsonb *info);

// Reads argument `n` of a call. Raises an error if it is invalid, too large, names a queue that is out of scope, or has
// another worker_id than the call (`worker_id`; nullptr: the call has none).
const Jsonb *given_worker_info(FunctionCallInfo fcinfo, int n, const text *worker_id);
inline const Jsonb *worker_info_argument(FunctionCallInfo fcinfo, int n, const text *worker_id = nullptr) {
    return given(fcinfo, n) ? given_worker_info(fcinfo, n, worker_id) : nullptr;
}

}  // namespace jobq
