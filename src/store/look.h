// The store, waiting workers' side: is there a job for this worker? Nothing is locked or changed.
#pragma once

#include "core/lane.h"
#include "pg/pg.h"

#include <string_view>

namespace jobq {

// What the directory says about a queue for a worker.
struct Outlook {
    bool paused;
    int64 *lanes;  // that the worker may take, palloc'd
    int count;
};
// 42704 when the queue must have settings and has none. Inside with_spi().
Outlook read_outlook(std::string_view queue, const core::WorkerFilter &filter);

enum class Sight {
    Nothing,
    Held,       // claimable jobs only that other transactions hold: their end may leave them claimable
    Claimable,  // a job that nobody seems to hold
};
struct Seen {
    Sight sight;
    int64 job_id;  // of the claimable one
};
// Looks at the first claimable jobs of each of these lanes, under a snapshot of its own.
Seen look_into_lanes(const int64 *lanes, int count);

}  // namespace jobq
