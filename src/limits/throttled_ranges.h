// Throttled ranges are ranges of a lane in which no job may run because of the limits of the keys. They spare claims
// from checking the same jobs again and again. They are stored like empty ranges (lanes/empty_ranges.h), in a key space
// of their own: when a job becomes claimable, its commit takes the job's claim key out of the ranges.
//
// A throttled job can also run when its concurrency key gets room. A transaction that frees a slot of the key records
// the key here, for all lanes of the queue, and the next claim takes the key's first jobs out of the ranges. So if a
// key has room and jobs in a range, the key is recorded here, or one of its jobs is no longer in a range.
//
// Throttled ranges are hints, like the empty ranges. Without preload there are none.
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

// Begins to record keys for the lane. Returns false if there is no room; then the lane must not get throttled ranges.
bool keep_keys_for(std::string_view queue, int64 lane);

// Records that the key may run jobs from `when` on: `slots` more jobs or, with kByRate, as many as its rate has tokens
// for at that time. Returns whether the queue has throttled ranges, so that jobs may wait in them. Raises no error.
constexpr int kByRate = 0;
bool unthrottle_key(std::string_view queue, std::string_view key, TimestampTz when, int slots);

// Removes from the lane a recorded key that may run jobs now, and copies it to `key`, which has room for
// core::kMaxConcurrencyKeyBytes. Returns the length of the key, 0 if there is none, or kNothingKept if no keys are
// recorded for the lane, so that its ranges must not be used. *slots is the number of jobs that the key was recorded
// for, at least 1. *all is set if the caller must forget the ranges of the lane, because too many keys were recorded or
// because the ranges have expired.
constexpr int kNothingKept = -1;
int next_unthrottled_key(int64 lane, TimestampTz now, char *key, int *slots, bool *all);
// Returns the time at which the next recorded key of the lane may run jobs, or DT_NOEND if there is none.
TimestampTz next_unthrottling(int64 lane);

// The shared memory of this file, for main/jobq.cpp.
Size throttled_ranges_size();
void make_throttled_ranges(void *memory, bool fresh);
SharedUsage throttled_ranges_usage();

}  // namespace jobq
