// Claims jobs of a queue for a worker.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "core/lane.h"
#include "queues/directory.h"
#include "row/jobs_table.h"

namespace jobq {

// A job that has just been claimed: the row before the claim, and the lease and timeout that the claim gave the job.
struct ClaimedJob {
    const JobsTable *jobs;
    int64 lease;
    core::Micros timeout;
};

struct ClaimRequest {
    text *worker_id;
    int batch;
    core::WorkerFilter filter;
    core::Micros heartbeat_timeout;  // 0: the timeout of the job, its kind, or its queue
    const Jsonb *worker_info;        // nullptr: the worker does not describe itself
    bool written_once;               // before the first heartbeat, only the report on the job writes its row again
};

// Receives the claimed jobs one by one, in the order of the queue. The argument of take() is valid only during the
// call. It returns false if the claim must not take any more jobs.
class ClaimSink {
 public:
    virtual bool take(const ClaimedJob &job) = 0;

 protected:
    ~ClaimSink() = default;
};

// Takes up to request.batch claimable jobs from the lanes of the queue, in the order (priority, run_at, id). Skips jobs
// that other transactions have locked; never waits for them. Returns the number of jobs taken, which is 0 for a paused
// queue. Raises 40001 in REPEATABLE READ and above if a job has changed since the snapshot was taken.
//
// Before the claim takes its first job, it locks jobq.jobs and gets a transaction ID. Therefore, the claim obeys the
// settings and limits that are committed when it takes its first job.
int claim_jobs(const ClaimRequest &request, std::string_view name, TimestampTz now, ClaimSink *sink);

// A queue of a claim from several queues.
struct QueueToClaim {
    std::string_view name;
    int batch;  // maximum number of jobs from this queue; 0 excludes the queue
};

// Takes up to request.batch claimable jobs from the queues, which must be different from each other. Takes as many jobs
// as possible from a queue before it continues with the next queue. If `oldest_first` is true, takes the jobs one by
// one, each from the queue whose next job has the earliest run_at.
int claim_jobs_of_any(const ClaimRequest &request, const QueueToClaim *queues, int count, bool oldest_first,
                      TimestampTz now, ClaimSink *sink);

}  // namespace jobq
