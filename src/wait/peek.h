// Is there a job for this worker? Nothing is locked or changed.
#pragma once

#include "compat/pg.h"
#include "lanes/lane_policy.h"

#include <string_view>

namespace jobq {

// What is known about a queue.
struct Outlook {
    bool paused;
    bool limited;     // the queue's own limit is used up
    TimestampTz due;  // when its next token comes; DT_NOEND: none is awaited
};
// 42704 when the queue must have settings and has none. Inside with_spi().
Outlook read_outlook(std::string_view queue);

enum class Peek {
    Nothing,
    Held,       // claimable jobs only that other transactions hold: their end may leave them claimable
    Claimable,  // a job that nobody seems to hold
};
struct Seen {
    Peek found;
    int64 job_id;     // of the claimable one
    TimestampTz due;  // when a key's next token comes, or the worker's trial can end; DT_NOEND: none is awaited
};
// Looks at the first claimable jobs of each lane of a queue that such a worker may take jobs from, under a snapshot of
// its own. Jobs that a limit keeps from running, as far as that is known, do not count, nor do suspects that this
// worker is not given. Inside with_spi().
Seen look_into_lanes(std::string_view queue, const core::WorkerFilter &filter, text *worker_id);

}  // namespace jobq
