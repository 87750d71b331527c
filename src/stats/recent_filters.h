// What workers have asked for lately: of each queue the filters (kinds, versions, capabilities) of the claims and waits
// of the last ten minutes, for jobq_explain to tell whether anybody would take a job at all. A session writes a filter
// down at most every few seconds, so a claim pays one hash of its own arguments and a comparison.
//
// Known with preload only, since the server started, and as far as there is room.
#pragma once

#include "compat/pg.h"
#include "job/job_policy.h"
#include "lanes/lane_policy.h"

#include <string_view>

namespace jobq {

// For so long a filter counts as one that somebody may come back with.
constexpr core::Micros kRecent = 10 * core::kMinute;

// A session notes a filter again only after this time.
constexpr core::Micros kNoteEvery = 5 * core::kSecond;

// Somebody asks for jobs of this queue now.
void note_filter(std::string_view queue, const core::WorkerFilter &filter, TimestampTz now);

struct RecentFilter {
    core::WorkerFilter filter;
    TimestampTz asked_at;  // when a worker last asked with it; up to kNoteEvery too early
    bool known;            // false: it was too long to be written down
};
struct RecentFilters {
    RecentFilter *items;
    int count;
    TimestampTz since;  // all that was asked for since then is there; DT_NOEND: nothing is known
};
// The filters with which this database's workers have asked for jobs of the queue lately. palloc'd.
RecentFilters recent_filters(std::string_view queue, TimestampTz now);

// For main/jobq.cpp: its part of the shared memory.
Size recent_filters_size();
void make_recent_filters(void *memory, bool fresh);

}  // namespace jobq
