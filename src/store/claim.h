// The store, workers' side: how a job is taken.
#pragma once

#include "core/job.h"
#include "pg/pg.h"
#include "pg/spi.h"
#include "store/directory.h"

namespace jobq {

// Columns of the row of a claimed job, as it was before the claim.
enum ClaimColumn {
    kClaimTid = 1,
    kClaimId,
    kClaimQueue,
    kClaimKind,
    kClaimPayload,
    kClaimAttempts,
    kClaimMaxAttempts,
    kClaimPriority,
    kClaimVersion,
    kClaimRunAt,
    kClaimCreatedAt,
    kClaimProgress,
    kClaimMetadata,
    kClaimHeartbeatTimeout,
};

// A job that has been claimed: the row as it was locked, and what the claim gave it.
struct ClaimedJob {
    Row row;
    int64 lease;
    core::Micros timeout;
};

struct ClaimRequest {
    text *worker_id;
    int batch;
    core::WorkerFilter filter;
    core::Micros heartbeat_timeout;  // 0: the job's, else the queue's
};

// Takes up to request.batch claimable jobs of the queue, in the order (priority, run_at, id) across its lanes; jobs
// that other transactions hold are passed over, never waited for. `claimed` has room for request.batch; returns how
// many were taken. 40001 in REPEATABLE READ and above when a job has changed since the snapshot. Inside with_spi();
// the rows live until SPI is closed.
int claim_jobs(const ClaimRequest &request, const Queue &queue, TimestampTz now, ClaimedJob *claimed);

}  // namespace jobq
