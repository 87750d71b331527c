// The state of a claim, and the functions with which a claim takes one job. A scan of the claim index finds an entry,
// and these functions take the job in the row to which the entry points. Only claim.cpp and take_from_lane.cpp may call
// these functions.
#pragma once

#include "claim/claim.h"
#include "compat/pg.h"
#include "limits/limiter.h"
#include "row/jobs_table.h"

namespace jobq {

// What a claim does with suspects, which are jobs that have lost a worker before.
enum class Suspects : uint8 { Unasked, OneAlone, PassedOver };

struct Claim {
    const ClaimRequest &request;
    std::string_view name;  // name of the queue
    const Queue &queue;
    TimestampTz now;
    ClaimSink *sink;
    uint32 worker_hash;
    uint64 epoch;  // epoch of the empty ranges

    JobsTable jobs = {};
    bool is_open = false;  // `jobs` is open
    Datum xid = Datum(0);
    int count = 0;
    int wanted = 0;  // number of jobs after which the current scan ends; not more than the batch size
    core::Micros earliest_timeout = core::kLatest;
    bool skip_recent_claims = true;
    Limiter *limiter = nullptr;  // nullptr if the queue has no limits
    bool closed = false;  // takes no more jobs: the queue's limit is used up, the claim has found a suspect or too many
                          // expired jobs, the sink is full, or the claim is outdated
    bool outdated = false;  // the settings changed before the claim took a job, so the claim must start over
    Suspects suspects = Suspects::Unasked;
    bool took_suspect = false;
    bool sink_is_full = false;
    bool passed_suspect = false;
    bool only_suspect = false;  // ends before the first job that is not a suspect
};

// Returns whether the claim must not take the job in table.row, because the job is a suspect that this worker must not
// get, or because the claim takes only a suspect. Must be called before the permits of a limit are acquired, because
// this check costs far less.
bool passes_over(Claim *claim);

// Takes the job in table.row. Returns false if the job is not claimable or another claim has taken it first.
bool take_job(Claim *claim);
// Takes the job in table.row, whose queue has limits. Returns Yes if the job was taken or is not claimable, NotForKey
// if the limit of the job's key is used up (other keys might have room), NotForLane if the limit of the job's kind or
// one of its named limits is used up (other lanes might have room), or NotForQueue if the limit of the queue is used
// up, which closes the claim.
Room take_limited_job(Claim *claim);

}  // namespace jobq
