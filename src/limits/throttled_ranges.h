// Throttled ranges are ranges of a lane in which no job may run because the limits of the jobs' concurrency keys are
// full. Claims skip them instead of checking the same jobs repeatedly. They are stored like empty ranges
// (lanes/empty_ranges.h), but in a separate key space. When a transaction that makes a job claimable commits, it
// removes the job's claim key from the ranges.
//
// A throttled job can also run when the limit of its concurrency key has room again. A transaction that frees a slot of
// the key records the key here for all lanes of the queue, and the next claim removes the first jobs of the key from
// the ranges. So if a key has room and some of its jobs are in a range, then the key is recorded here, or one of its
// jobs is no longer in a range.
//
// Throttled ranges are hints, like empty ranges. There are none if the library is not preloaded.
#pragma once

#include "compat/pg.h"
#include "lanes/empty_ranges.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// Identifies the throttled ranges of a lane.
constexpr RangesOf throttled_lane(int64 lane) { return {core::KeySpace::Throttled, lane}; }

// Returns whether any lane of any database may have throttled ranges.
bool anything_throttled();

// Begins to record keys for the lane. Returns false if there is no room for them; in this case, the caller must not
// store throttled ranges for the lane.
bool keep_keys_for(std::string_view queue, int64 lane);

// Records that jobs of the key may run at `when` or later: as many jobs as `slots` says or, if it is kByRate, as many
// as there are tokens at that time. Returns whether the queue has throttled ranges, in which jobs may wait. Raises no
// error.
constexpr int kByRate = 0;
bool unthrottle_key(std::string_view queue, std::string_view key, TimestampTz when, int slots);

// Copies a recorded key whose jobs may run now to `key`, which has room for core::kMaxConcurrencyKeyBytes, and removes
// it from the keys recorded for the lane. Returns the length of the key, or 0 if there is none. Returns kNothingKept if
// keys are not being recorded for the lane; in this case, the caller must not use the ranges of the lane. Sets *slots
// to the number of jobs for which the key was recorded, at least 1. Sets *all if the caller must forget the ranges of
// the lane because too many keys were recorded or the ranges have expired.
constexpr int kNothingKept = -1;
int next_unthrottled_key(int64 lane, TimestampTz now, char *key, int *slots, bool *all);
// Returns the time from which jobs of the next recorded key of the lane may run, or DT_NOEND if no key is recorded.
TimestampTz next_unthrottling(int64 lane);

// main/jobq.cpp calls these functions for this part of the shared memory.
Size throttled_ranges_size();
void make_throttled_ranges(void *memory, bool fresh);
SharedUsage throttled_ranges_usage();

}  // namespace jobq
