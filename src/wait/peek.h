// Checks whether there is a claimable job for a waiting worker. The check does not lock or change any rows.
#pragma once

#include "compat/pg.h"
#include "core/lane.h"

#include <string_view>

namespace jobq {

// Whether a queue allows a job to start now.
struct Outlook {
    bool paused;
    bool limited;     // the limit of the whole queue is used up
    TimestampTz due;  // time of the queue's next token; DT_NOEND: none is awaited
};
// Returns whether the settings of the queue allow a job to start now. Must be called inside with_spi().
Outlook read_outlook(std::string_view queue);

enum class Peek {  // in ascending order of how soon a claim could get a job
    Nothing,
    Held,       // claimable jobs exist, but other transactions hold all of them and might leave them claimable
    Claimable,  // there is a job that no other transaction seems to hold
};
struct Seen {
    Peek found;
    int64 job_id;  // id of the claimable job
    // Earliest time at which a key gets its next token or the trial of a suspect that this worker is running
    // (leases/suspects.h) might end. DT_NOEND if neither is awaited.
    TimestampTz due;
};
// Searches for a claimable job, under a new snapshot, in all lanes of the queue that the worker's filter accepts.
// Ignores jobs that are known to be waiting because of a limit, and also ignores suspects (leases/suspects.h) that this
// worker is not allowed to claim now. Must be called inside with_spi().
Seen scan_lanes(std::string_view queue, const core::WorkerFilter &filter, text *worker_id);

}  // namespace jobq
