// A claim from one queue as a part of a claim from several queues. Only claim.cpp and claim_several.cpp include this
// file.
#pragma once

#include "claim/claim.h"
#include "compat/queue_name.h"

namespace jobq {

// A claim from several queues. Its parts claim from one queue each.
struct WholeClaim {
    int count;          // number of jobs that the earlier parts have taken
    bool only_suspect;  // the current part takes only a suspect
    bool took_suspect;  // the claim must not take any other job
    bool sink_is_full;
    bool left_jobs;     // the current part might have left jobs that a claim can take
    QueueName suspect;  // a queue in which a part passed over a suspect because earlier parts had taken jobs
};

// Claims jobs of one queue. `whole` is nullptr if the claim takes jobs from one queue only.
int claim_part(const ClaimRequest &request, std::string_view name, TimestampTz now, ClaimSink *sink, WholeClaim *whole);

// Sets *run_at to the run_at of the next job of the queue. Returns false if the queue has no claimable job.
bool find_next_run_at(const ClaimRequest &request, std::string_view name, TimestampTz now, core::Micros *run_at);

// Wakes the next worker that sleeps in jobq_wait() if the queue has claimable jobs. Returns whether it woke a worker.
bool wake_for_jobs_left_in(const ClaimRequest &request, std::string_view name, TimestampTz now);

}  // namespace jobq
