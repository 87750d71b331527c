// Lanes in front of which stand jobs that the limits of their keys keep from running. Claims shall not look at all of
// them again and again, so where only such jobs are is remembered as empty ranges are (lanes/empty_ranges.h), in a
// key space of its own: a job that becomes claimable there takes its place out of the ranges.
//
// What else makes such a job runnable is a key that gets room. Whoever gives a slot of the key back leaves its name
// here, for all lanes of the queue, and the next claim takes the places of the key's first jobs out of the ranges. So
// as long as a key has room and jobs in a range, its name is here, or a job of it is not in a range any more.
//
// Hints, like the empty ranges: without preload there are none.
#pragma once

#include "compat/pg.h"
#include "lanes/empty_ranges.h"

#include <string_view>

namespace jobq {

// Where the ranges of a lane are remembered.
constexpr RangesOf throttled_lane(int64 lane) { return {core::KeySpace::Throttled, lane}; }

// Whether any lane of any database has ranges of jobs that limits keep from running.
bool anything_throttled();

// From here on names of keys are kept for the lane; false: there is no room, and nothing may be remembered.
bool keep_keys_for(std::string_view queue, int64 lane);

// The key may run jobs from `when` on: one for each of so many slots, besides those that it was told of before, or
// as many as its rate has tokens for then. Returns whether the queue has such ranges: jobs may wait in them. No error
// is raised.
constexpr int kByRate = 0;
bool unthrottle_key(std::string_view queue, std::string_view key, TimestampTz when, int slots);

// Takes the name of a key off the lane that may run jobs now, and copies it to `key`, which has room for
// core::kMaxConcurrencyKeyBytes. Returns how long it is; 0: there is none; kNothingKept: no names are kept for the
// lane, so its ranges must not be used. *slots: for how many it was left, at least 1. *all: so many names were left, or
// it was so long ago, that the ranges must be forgotten.
constexpr int kNothingKept = -1;
int next_unthrottled_key(int64 lane, TimestampTz now, char *key, int *slots, bool *all);
// When the next one may; DT_NOEND: nobody knows.
TimestampTz next_unthrottling(int64 lane);

// For main/jobq.cpp: its part of the shared memory.
Size throttled_ranges_size();
void make_throttled_ranges(void *memory, bool fresh);

}  // namespace jobq
