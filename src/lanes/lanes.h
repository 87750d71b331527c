// Looks up lanes in the table jobq.lane_directory. Each session has a cache of this table. The session reads the lanes
// of a kind when a call first names the kind, and all lanes of a queue when a claim names no kind. After that, it reads
// only new and changed rows, which it recognizes by the transaction ID that each row contains. A transaction that
// writes lanes sends one invalidation message when it commits. See "Lanes" in docs/internals/claim.md.
//
// The functions return copies, because a user's trigger might run between two calls and change the cache.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "core/claim_key.h"
#include "core/lane.h"
#include "core/wake.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// Returns the elements of an array from the column `requires` as a canonical set, whose strings point into the array.
// In this file, a null pointer to an array stands for an empty array.
Names canonical_requires(ArrayType *required);

// Returns the id of the lane with these attributes.
int64 lane_id(std::string_view queue, std::string_view kind, int32 version, ArrayType *required, ArrayType *limits);

// Returns the id of a lane and inserts the lane into jobq.lane_directory if it is missing. Never waits for another
// transaction. Assigns an ID to the current transaction.
int64 ensure_lane(std::string_view queue, std::string_view kind, int32 version, ArrayType *required, ArrayType *limits);

// Returns whether the lane is in jobq.lane_directory and is not about to be deleted. Does not write.
bool lane_stays(std::string_view queue, std::string_view kind, int64 lane);
// Returns the same result as lane_stays(), but without waiting. Also returns false if jobq.lane_directory must be read
// but is locked.
bool lane_is_seen_to_stay(std::string_view queue, std::string_view kind, int64 lane);

// Records that the current transaction makes a job claimable: ensures that the lane of the job is in
// jobq.lane_directory, and makes the commit notify the sessions that wait for jobs. Every statement that makes jobs
// claimable must call this function for each job. `is_new` means that the job cannot have been claimed before.
void publish_ready(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new = false);

// Gets the requirements that the jobs of the lane impose on a worker. Returns false if the lane is not in the cache.
bool traits_of_lane(std::string_view queue, int64 lane, core::LaneTraits *traits);

// Maximum number of lanes that a claim checks one by one, using the empty ranges to skip lanes without jobs. If there
// are more lanes, the claim searches the claim index for lanes that have entries.
constexpr int kFewLanes = 64;

// Lanes of a queue in the order of their ids.
struct LaneIds {
    int64 *items;
    int count;
    // true if `items` contains all lanes of the queue because there are too many to check one by one; the caller must
    // find the lanes that have jobs and call wants_lane() for each of them
    bool many;
};
// Returns the lanes from which a worker with this filter may take jobs.
LaneIds wanted_lanes(std::string_view queue, const core::WorkerFilter &filter);
// Returns whether the worker may take jobs from a lane that wanted_lanes() returned. Ignores changes that were made to
// lanes since that call; these changes apply to the next claim.
bool wants_lane(std::string_view queue, int64 lane, const core::WorkerFilter &filter);
// Returns all lanes of the queue.
LaneIds all_lanes(std::string_view queue);

// Processes pending invalidation messages, and returns a number that increases whenever lanes may have been added to
// jobq.lane_directory, also by this transaction.
uint64 version_of_lanes();

// Makes every session, including this one, read new and changed lanes after the commit of this transaction. Must be
// called after changing or deleting lanes, except after ensure_lane(), which calls this function itself.
void lanes_changed_at_commit();

// Makes every session, including this one, read all lanes again after the commit of this transaction.
void invalidate_lanes();

// main/jobq.cpp calls the following functions at the end of a transaction or savepoint.
void send_news_of_lanes();  // sends the invalidation messages; called before the commit
// These functions undo the changes to the cache. undo_lanes() is called after a rollback, and after PREPARE TRANSACTION
// because the prepared changes are not visible yet.
void undo_lanes();
void undo_lanes_of_savepoint();

}  // namespace jobq
