// How a job is taken.
#pragma once

#include "compat/pg.h"
#include "job/job_policy.h"
#include "job/jobs_table.h"
#include "lanes/lane_policy.h"
#include "queues/directory.h"

namespace jobq {

// A job that has just been claimed: its row as it was before, and what the claim gave it.
struct ClaimedJob {
    const JobsTable *jobs;
    int64 lease;
    core::Micros timeout;
};

struct ClaimRequest {
    text *worker_id;
    int batch;
    core::WorkerFilter filter;
    core::Micros heartbeat_timeout;  // 0: the job's, else the queue's
    bool written_once;               // nobody but who reports writes the row until the first heartbeat
};

// Who gets the claimed jobs, one by one, in their order. What a job points to is gone when the call returns.
class ClaimSink {
 public:
    virtual void take(const ClaimedJob &job) = 0;

 protected:
    ~ClaimSink() = default;
};

// Takes up to request.batch claimable jobs of the queue of that name, in the order (priority, run_at, id) across its
// lanes; jobs that other transactions hold are passed over, never waited for. Returns how many were taken: none from a
// paused queue. 40001 in REPEATABLE READ and above when a job has changed since the snapshot.
//
// The settings and limits that the claim obeys are those that were committed when it took its first job: it holds the
// lock on jobq.jobs and has a transaction number by then.
int claim_jobs(const ClaimRequest &request, std::string_view name, TimestampTz now, ClaimSink *sink);

}  // namespace jobq
