// The lanes of queues, as a session knows them. The session reads the lanes of a kind when a call first names the kind,
// and all lanes of a queue when a claim names no kind. After that, it reads only new and changed rows, because each row
// has the id of the transaction that wrote it. One message at the commit announces such rows. See "Lanes" in
// docs/design.md.
//
// The functions return copies, because users' triggers may also ask for lanes.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "core/claim_key.h"
#include "core/lane.h"
#include "core/wake.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// Returns the elements of a column `requires` as a canonical set of views into the array. The array may be nullptr,
// here and below.
Names canonical_requires(ArrayType *required);

// Returns the id of a lane.
int64 lane_id(std::string_view queue, std::string_view kind, int32 version, ArrayType *required);

// Returns the id of a lane, and enters the lane into the directory if it is missing. Never waits for another
// transaction. Assigns an id to the current transaction.
int64 ensure_lane(std::string_view queue, std::string_view kind, int32 version, ArrayType *required);

// Returns whether the lane is in the directory and not about to be deleted. Only reads.
bool lane_stays(std::string_view queue, std::string_view kind, int64 lane);
// The same without waiting: also returns false if the directory must be read and another session has locked it.
bool lane_is_seen_to_stay(std::string_view queue, std::string_view kind, int64 lane);

// Records that the current transaction makes a job claimable: ensures that its lane is in the directory, and notifies
// sessions that wait for jobs at the commit. Every statement that makes jobs claimable must call this for each job.
// `is_new` means that the job cannot have been claimed before.
void publish_ready(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new = false);

// Returns the requirements of the lane's jobs on a worker. Returns false if the session does not know the lane.
bool traits_of_lane(std::string_view queue, int64 lane, core::LaneTraits *traits);

// Maximum number of lanes that a claim looks into one by one, using the empty ranges to skip those without jobs. If
// there are more, it finds the lanes that have entries in the claim index.
constexpr int kFewLanes = 64;

// Lanes of a queue in the order of their ids.
struct LaneIds {
    int64 *items;
    int count;
    // contains all lanes of the queue, wanted or not: find those that have jobs, then call wants_lane()
    bool many;
};
// Returns the lanes from which a worker with this filter may take jobs.
LaneIds wanted_lanes(std::string_view queue, const core::WorkerFilter &filter);
// Returns whether the worker may take jobs from a lane of wanted_lanes(). Uses what was known then; changes since then
// apply to the next walk.
bool wants_lane(std::string_view queue, int64 lane, const core::WorkerFilter &filter);
// Returns all lanes of the queue.
LaneIds all_lanes(std::string_view queue);

// Must be called after rows of lanes have been changed or deleted, except by ensure_lane(). Every session, including
// this one, reads new and changed rows after the commit of this transaction.
void lanes_changed_at_commit();

// Makes every session, including this one, read all lanes again after the commit of this transaction.
void invalidate_lanes();

// For main/jobq.cpp.
void send_news_of_lanes();  // called before the commit
// Called after a rollback, and after PREPARE TRANSACTION because the prepared changes are not visible yet.
void undo_lanes();
void undo_lanes_of_savepoint();

}  // namespace jobq
