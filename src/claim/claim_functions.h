// The arguments and results of the SQL functions that claim jobs.
#pragma once

#include "claim/claim.h"
#include "claim/claimed_jobs.h"
#include "claim/queue_arguments.h"
#include "compat/pg.h"

namespace jobq {

// Prefix of the names that jobq gives to workers without a name. The backend's pid follows the prefix.
#define JOBQ_BACKEND_WORKER "backend:"
constexpr const char kBackendWorkerPrefix[] = JOBQ_BACKEND_WORKER;

// Returns the worker's name: the argument, or else the setting jobq.worker_id, or nullptr if neither is set.
text *worker_id_argument(FunctionCallInfo fcinfo, int n);
// Returns the worker's name like worker_id_argument(), but if no name is set, returns the prefix followed by the
// backend's pid.
text *worker_id_or_default(FunctionCallInfo fcinfo, int n);

// Checks and returns the arguments `kinds`, `versions`, and `capabilities`. `first` is the position of `kinds`.
core::WorkerFilter checked_filter(FunctionCallInfo fcinfo, int first);

// Checks and returns the arguments `worker_id`, `batch`, `kinds`, `versions`, `capabilities`, and `heartbeat_timeout`,
// which begin at position `first`, and `worker_info` at position `info`.
ClaimRequest claim_request(FunctionCallInfo fcinfo, int first, int info);

// Claims jobs of the queue and passes them to the sink. Returns the number of claimed jobs.
int claim_into(ClaimSink *sink, const ClaimRequest &request, std::string_view queue);
// Claims jobs of several queues and passes them to the sink.
void claim_any_into(ClaimSink *sink, const ClaimRequest &request, const QueueArguments &queues,
                    const QueueScope *scope);

// Raises 42602 if the name is empty, 42622 if it is too long, and 22023 if it begins with the prefix that is reserved
// for workers without a name.
void check_worker_id(std::string_view worker_id);

}  // namespace jobq
