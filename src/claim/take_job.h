// A claim, and how it takes one job: the row that a scan of the claim index has found.
// Who may call it: claim.cpp and take_from_lane.cpp.
#pragma once

#include "claim/claim.h"
#include "compat/pg.h"
#include "job/jobs_table.h"
#include "limits/limiter.h"

namespace jobq {

// What the claim makes of jobs that have lost a worker before.
enum class Suspects : uint8 { Unasked, OneAlone, PassedOver };

struct Claim {
    const ClaimRequest &request;
    std::string_view name;  // of the queue
    const Queue &queue;
    TimestampTz now;
    ClaimSink *sink;
    uint32 worker_hash;
    uint64 epoch;  // of the empty ranges

    JobsTable jobs = {};
    bool is_open = false;  // jobs
    Datum xid = Datum(0);
    int count = 0;
    int wanted = 0;  // so many for now, at most the batch
    core::Micros earliest_timeout = core::kLatest;
    bool skip_recent_claims = true;
    Limiter *limiter = nullptr;  // the queue has no limits
    bool closed = false;         // takes no more: the queue's own limit is used up, it has come to a suspect, or:
    bool outdated = false;       // the settings have changed before it took a job, so it must begin again
    Suspects suspects = Suspects::Unasked;
};

// Whether the job in table.row is a suspect that this worker is not given. Seeing that costs far less than the permits
// of a limit.
bool passes_over(Claim *claim);

// Takes the job in table.row. False: it is none to take, or another claim was first.
bool take_job(Claim *claim);
// The same where the queue has limits. Yes: taken, or none to take. NotForKey: its key has no room, others may have.
// NotForQueue: the claim is closed.
Room take_limited_job(Claim *claim);

}  // namespace jobq
