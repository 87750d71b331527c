// The filters (kinds, versions, capabilities) with which workers have claimed or waited in each queue in the last ten
// minutes. jobq_explain uses them to tell whether any worker would take a job. A session notes a filter at most every
// few seconds, so a claim costs only one hash of its arguments and a comparison.
//
// Filters are known only with preload, since the server started, and only as far as there is room.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "core/lane.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// How long a worker is expected to come back with a filter.
constexpr core::Micros kRecent = 10 * core::kMinute;

// Least time before a session notes the same filter again.
constexpr core::Micros kNoteEvery = 5 * core::kSecond;

// Notes that a worker asks for jobs of this queue now.
void note_filter(std::string_view queue, const core::WorkerFilter &filter, TimestampTz now);

struct RecentFilter {
    core::WorkerFilter filter;
    TimestampTz asked_at;  // when a worker last asked with this filter; may be up to kNoteEvery too early
    bool known;            // false if the filter was too long to be kept
};
struct RecentFilters {
    RecentFilter *items;
    int count;
    TimestampTz since;  // the list contains every filter that was used since then; DT_NOEND if nothing is known
};
// Returns the filters with which workers of this database have recently asked for jobs of the queue. The result is
// allocated with palloc.
RecentFilters recent_filters(std::string_view queue, TimestampTz now);

// main/jobq.cpp calls these functions for this part of the shared memory.
Size recent_filters_size();
void make_recent_filters(void *memory, bool fresh);
SharedUsage recent_filters_usage();

}  // namespace jobq
