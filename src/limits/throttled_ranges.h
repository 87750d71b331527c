// Throttled ranges are ranges of a lane in which no job can run because the limits of the jobs' concurrency keys are
// full. Claims skip them instead of checking the same jobs repeatedly. They are stored like empty ranges
// (lanes/empty_ranges.h), but in a separate key space. When a transaction that makes a job claimable commits, it
// removes the job's claim key from the ranges.
//
// A throttled job can also run when the limit of its concurrency key has room again. A transaction that frees a slot of
// the key records the key here for all lanes of the queue, and the next claim removes the first jobs of the key from
// the ranges. So if a key has room and some of its jobs are in a range, then the key is recorded here, or at least one
// of its jobs is no longer in a range.
//
// Throttled ranges are hints, like empty ranges. If the library is not preloaded, there are no throttled ranges.
#pragma once

#include "compat/pg.h"
#include "lanes/empty_ranges.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// Returns the identifier of the throttled ranges of a lane.
constexpr RangesOf throttled_lane(int64 lane) { return {core::KeySpace::Throttled, lane}; }

// Returns whether any lane of any database might have throttled ranges.
bool anything_throttled();

// Begins to record keys for the lane. Returns false if there is no room for the keys; in this case, the caller must not
// store throttled ranges for the lane.
bool keep_keys_for(std::string_view queue, int64 lane);

// Records how many jobs of the key can run from the time `when` on: `slots` jobs or, if `slots` is kByRate, as many
// jobs as there are tokens at that time. Returns whether the queue has throttled ranges, in which jobs of the key might
// be waiting. Raises no error.
constexpr int kByRate = 0;
bool unthrottle_key(std::string_view queue, std::string_view key, TimestampTz when, int slots);

// Finds one of the lane's recorded keys whose jobs can run now, removes this key from the recorded keys, and copies it
// to `key`, which must have room for core::kMaxConcurrencyKeyBytes. Returns the length of the key, or 0 if there is no
// such key. Returns kNothingKept if keys are not being recorded for the lane; in this case, the caller must not use the
// ranges of the lane. Sets *slots to the number of jobs for which the key was recorded, at least 1. Sets *all if the
// caller must forget the ranges of the lane because too many keys were recorded or the ranges have expired.
constexpr int kNothingKept = -1;
int next_unthrottled_key(int64 lane, TimestampTz now, char *key, int *slots, bool *all);
// Returns the time from which jobs of the lane's next recorded key can run, or DT_NOEND if no key is recorded.
TimestampTz next_unthrottling(int64 lane);

// main/jobq.cpp calls these functions to set up the recorded keys in shared memory.
Size throttled_ranges_size();
void make_throttled_ranges(void *memory, bool fresh);
SharedUsage throttled_ranges_usage();

}  // namespace jobq
