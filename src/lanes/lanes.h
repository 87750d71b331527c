// What a session knows of the lanes of queues. It reads the lanes of a kind when it meets the kind, all lanes of a
// queue when a claim names no kind, and from then on only rows that are new or changed: each has the number of the
// transaction that wrote it. One message at the commit says that there are such rows; docs/design.md, "Lanes", has the
// whole story.
//
// What these functions return is a copy: triggers of others may ask for lanes as well.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "core/claim_key.h"
#include "core/lane.h"
#include "core/wake.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// The elements of a column `requires`, which may be nullptr here and below, as a canonical set: views into the array.
Names canonical_requires(ArrayType *required);

// The id of a lane.
int64 lane_id(std::string_view queue, std::string_view kind, int32 version, ArrayType *required);

// The id of a lane; enters it into the directory unless it is there. Never waits for another transaction. The
// transaction has a number from then on.
int64 ensure_lane(std::string_view queue, std::string_view kind, int32 version, ArrayType *required);

// Whether a lane of the queue and kind is in the directory, and is not about to leave it. Only reads.
bool lane_stays(std::string_view queue, std::string_view kind, int64 lane);
// The same, without waiting for anybody: false, too, where the directory has to be read and somebody has locked it.
bool lane_is_seen_to_stay(std::string_view queue, std::string_view kind, int64 lane);

// A job has become claimable by the current transaction: its lane is in the directory, and whoever waits for jobs hears
// of it at the commit. Every statement that makes a job claimable must say so for each of its jobs. `is_new`: nobody
// can have claimed it before.
void tell_ready(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new = false);

// What the lane's jobs demand of a worker. Returns false if the session does not know the lane.
bool traits_of_lane(std::string_view queue, int64 lane, core::LaneTraits *traits);

// Of so many lanes at most each is looked into by itself, and the empty ranges say which of them are empty. Of more,
// those that have entries in the claim index are looked for.
constexpr int kFewLanes = 64;

// The lanes of a queue, in the order of their ids.
struct LaneIds {
    int64 *items;
    int count;
    // All of the queue's, whether they are wanted or not: look for those that have jobs, then ask wants_lane.
    bool many;
};
// Those that such a worker may take jobs from.
LaneIds wanted_lanes(std::string_view queue, const core::WorkerFilter &filter);
// Whether it may take jobs from a lane of wanted_lanes, as known by then: what changes meanwhile is for the next walk.
bool wants_lane(std::string_view queue, int64 lane, const core::WorkerFilter &filter);
// All of them.
LaneIds all_lanes(std::string_view queue);

// The rows of lanes have been changed or deleted, otherwise than by ensure_lane. Every session, this one included,
// reads those that are new or changed once the transaction commits.
void lanes_changed_at_commit();

// Makes every session, this one included, read all lanes again once the transaction commits.
void invalidate_lanes();

// For main/jobq.cpp.
void send_news_of_lanes();  // before the commit
void undo_lanes();          // of a transaction that is prepared, too: nothing of it is there until it is committed
void undo_lanes_of_savepoint();

}  // namespace jobq
