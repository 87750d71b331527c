// Decides whether a job is the active job of its group or waits for its turn. The same rules apply to jobs that are
// inserted or changed with plain SQL. A group consists of the jobs in a queue that have the same group_key. These jobs
// run one at a time, in the order of their ids.
#pragma once

#include "core/job.h"
#include "core/keyed_hash.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxGroupKeyBytes = 1024;

// Returns the number of a group, which is a keyed hash of its queue and key. If two groups have the same number by
// chance, their jobs run one at a time, as if they were one group. A collision has no other effect.
std::int64_t group_hash(const HashKey &secret, std::string_view queue, std::string_view key) noexcept;

// The active job is the head of its group: the only job of the group that is claimable, running, or scheduled. It stays
// active until it is finished, even if it is retried. If the group halts on a failure, a failed job stays active, too.
enum class GroupPlace : std::uint8_t { None, Waiting, Active };

// What happens to a group after its head has failed permanently: the next job runs, or the group halts. The values have
// the same order as the words of the setting group_on_failure in core/queue_settings.h.
enum class GroupOnFailure : std::uint8_t { Continue, Halt };

// Determines the place that a job with a group_key takes in its group when it is inserted with this status. `restored`
// means that the row comes from a dump. In this case, `active` says whether the job was the active job of its group in
// the dumped database. Returns false if the job must not be inserted as running, because another job might be the head
// of the group.
bool place_inserted(JobStatus status, bool restored, bool active, GroupPlace *place) noexcept;

// Determines the place that a job with a group_key takes in its group after an UPDATE with plain SQL has set its status
// to `status`. `before` is the job's previous place in the same group, or None if its group has changed or the job was
// finished. If the head fails and its group does not halt, `before` must be None, because the head of a halted group
// stays active. Returns false if the job must not start to run, because another job might be the head of the group.
bool place_updated(GroupPlace before, JobStatus status, GroupPlace *place) noexcept;

}  // namespace jobq::core
