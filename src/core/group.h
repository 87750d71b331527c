// Groups: the jobs of a queue with the same group_key run one at a time, in the order of their ids. Where a job stands
// in its group, and what a change by hand does to that. Pure.
#pragma once

#include "core/job.h"
#include "core/keyed_hash.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxGroupKeyBytes = 1024;

// Returns the number of a group, a keyed hash of queue and key. Two groups that have the same number by chance run one
// after the other; nothing else happens to them.
std::int64_t group_hash(const HashKey &secret, std::string_view queue, std::string_view key) noexcept;

// The active job is the head of its group: the one that may be claimed, runs, or waits for its time. It stays active
// until it is finished, whatever happens on the way.
enum class GroupPlace : std::uint8_t { None, Waiting, Active };

// The place of a job with a group_key that somebody inserts with this status. `restored`: from a dump, where `active`
// was recorded. False: a running job cannot be inserted, since another may be the head.
bool place_inserted(JobStatus status, bool restored, bool active, GroupPlace *place) noexcept;

// The place of such a job after an UPDATE by hand which left it with this status. `before`: the place that it had, in
// the same group; None when the group is another one or the job was finished. False: the job cannot start to run, since
// another may be the head.
bool place_updated(GroupPlace before, JobStatus status, GroupPlace *place) noexcept;

}  // namespace jobq::core
