// Records the filters (kinds, versions, capabilities) with which workers have claimed or waited for jobs of each queue
// in the last ten minutes. jobq_explain() uses them to determine whether any worker would take a job. A session records
// the same filter at most once every few seconds, so most claims only compute and compare a hash of their arguments.
//
// Filters are recorded only if the library is preloaded. All filters are lost when the server restarts, and the least
// recently used filter is lost when there is no room for a new one.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "core/lane.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// Time for which a filter is remembered after a worker has used it.
constexpr core::Micros kRecent = 10 * core::kMinute;

// Minimum time between two recordings of the same filter by a session.
constexpr core::Micros kNoteEvery = 5 * core::kSecond;

// Records that a worker asks for jobs of this queue with this filter.
void note_filter(std::string_view queue, const core::WorkerFilter &filter, TimestampTz now);

struct RecentFilter {
    core::WorkerFilter filter;
    TimestampTz asked_at;  // when a worker last used this filter; may be too early by up to kNoteEvery
    bool known;            // false if the filter was too long to be kept
};
struct RecentFilters {
    RecentFilter *items;
    int count;
    TimestampTz since;  // `items` contains every filter that was used since this time; DT_NOEND if nothing is known
};
// Returns the filters with which workers of this database have recently asked for jobs of the queue. The result is
// allocated with palloc.
RecentFilters recent_filters(std::string_view queue, TimestampTz now);

// main/jobq.cpp calls these functions to set up and monitor this part of shared memory.
Size recent_filters_size();
void make_recent_filters(void *memory, bool fresh);
SharedUsage recent_filters_usage();

}  // namespace jobq
