// The arguments of a claim and the rows it returns, shared by jobq_claim, jobq_claim_any, and jobq_complete_and_claim.
#pragma once

#include "claim/claim.h"
#include "compat/pg.h"
#include "compat/result_set.h"

namespace jobq {

// Prefix of the names that jobq gives to workers without a name; the backend's pid follows.
#define JOBQ_BACKEND_WORKER "backend:"
constexpr const char kBackendWorkerPrefix[] = JOBQ_BACKEND_WORKER;

// Returns the worker's name: the argument, or else the setting jobq.worker_id, or nullptr if neither is set.
text *worker_id_argument(FunctionCallInfo fcinfo, int n);
// Does the same, but if neither is set, returns a name made of the prefix and the backend's pid.
text *worker_id_or_default(FunctionCallInfo fcinfo, int n);

// Checks and returns the arguments kinds, versions, and capabilities, the first of which has number `first`.
core::WorkerFilter checked_filter(FunctionCallInfo fcinfo, int first);

// Checks and returns the arguments worker_id, batch, kinds, versions, capabilities, and heartbeat_timeout, the first of
// which has number `first`.
ClaimRequest claim_request(FunctionCallInfo fcinfo, int first);

// Claims jobs of the queue and adds them to the result. Returns their number.
int claim_into(ResultSet *results, const ClaimRequest &request, std::string_view queue);

// Raises 22023 for a worker name that jobq_heartbeat_worker could not look up.
void check_worker_id(std::string_view worker_id);

}  // namespace jobq
