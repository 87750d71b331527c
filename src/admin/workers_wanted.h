// Computes how many workers a queue needs. An autoscaler calls this often, so the cost does not grow with the number of
// jobs in the table. Call it inside with_owner_spi().
#pragma once

#include "compat/pg.h"
#include "core/clock.h"

#include <string_view>

namespace jobq {

struct WorkersRequest {
    std::string_view queue;
    core::Micros target;    // how long a job may wait
    core::Micros duration;  // how long a job runs; 0: use the mean running time that jobq has measured
    int32 slots;            // how many jobs a worker runs at the same time
};
int32 workers_wanted(const WorkersRequest &request, TimestampTz now);

}  // namespace jobq
