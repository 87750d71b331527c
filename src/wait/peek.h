// Checks whether there is a job for a worker that waits. Locks and changes nothing.
#pragma once

#include "compat/pg.h"
#include "core/lane.h"

#include <string_view>

namespace jobq {

// Whether the queue's own settings let a job start.
struct Outlook {
    bool paused;
    bool limited;     // the queue's own limit is used up
    TimestampTz due;  // time of the queue's next token; DT_NOEND: none is awaited
};
// Returns the outlook of the queue. Raises 42704 if the queue must have settings and has none. Must be called inside
// with_spi().
Outlook read_outlook(std::string_view queue);

enum class Peek {
    Nothing,
    Held,       // claimable jobs exist, but other transactions hold all of them and may leave them claimable
    Claimable,  // there is a job that no other transaction seems to hold
};
struct Seen {
    Peek found;
    int64 job_id;  // id of the claimable job
    TimestampTz
        due;  // time of a key's next token or of the possible end of the worker's trial; DT_NOEND: none is awaited
};
// Reads the first claimable jobs in each lane of the queue that the worker's filter accepts, under a new snapshot.
// Ignores jobs that a limit is known to keep from running, and suspects that this worker may not claim now
// (leases/suspects.h). Must be called inside with_spi().
Seen scan_lanes(std::string_view queue, const core::WorkerFilter &filter, text *worker_id);

}  // namespace jobq
