// The arguments of a claim and the rows it returns: shared by jobq_claim, jobq_claim_any and jobq_complete_and_claim.
#pragma once

#include "claim/claim.h"
#include "compat/pg.h"
#include "compat/result_set.h"

namespace jobq {

// Names of workers that jobq makes itself, from the backend's pid.
#define JOBQ_BACKEND_WORKER "backend:"
constexpr const char kBackendWorkerPrefix[] = JOBQ_BACKEND_WORKER;

// The name of the worker: the argument, else the setting jobq.worker_id; nullptr when it has none.
text *worker_id_argument(FunctionCallInfo fcinfo, int n);
// The same; one that has none is named after its backend.
text *worker_id_or_default(FunctionCallInfo fcinfo, int n);

// Checks the arguments from `first` on: kinds, versions, capabilities.
core::WorkerFilter checked_filter(FunctionCallInfo fcinfo, int first);

// Checks the arguments from `first` on: worker_id, batch, kinds, versions, capabilities, heartbeat_timeout.
ClaimRequest claim_request(FunctionCallInfo fcinfo, int first);

// Claims from the queue and returns the rows. Returns how many.
int claim_into(ResultSet *results, const ClaimRequest &request, std::string_view queue);

// Refuses a worker name that jobq_heartbeat_worker could not serve: 22023.
void check_worker_id(std::string_view worker_id);

}  // namespace jobq
