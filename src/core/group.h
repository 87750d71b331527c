// Groups: the jobs of a queue with the same group_key run one at a time, in the order of their ids. Decides whether a
// job is the active job of its group or waits for its turn, also after changes with plain SQL. Pure.
#pragma once

#include "core/job.h"
#include "core/keyed_hash.h"

#include <string_view>

namespace jobq::core {

constexpr std::size_t kMaxGroupKeyBytes = 1024;

// Returns the number of a group, a keyed hash of queue and key. If two groups have the same number by chance, their
// jobs run one at a time, as if they were one group. A collision has no other effect.
std::int64_t group_hash(const HashKey &secret, std::string_view queue, std::string_view key) noexcept;

// The active job is the head of its group: the one that may be claimed, runs, or waits for its time. It stays active
// until it is finished, even if it is retried.
enum class GroupPlace : std::uint8_t { None, Waiting, Active };

// Computes the place of a job that has a group_key and is inserted with this status. `restored` means that the row
// comes from a dump, which records `active`. Returns false if the job must not be inserted as running, because another
// job may be the head.
bool place_inserted(JobStatus status, bool restored, bool active, GroupPlace *place) noexcept;

// Computes the place of a job with a group_key after an UPDATE with plain SQL set this status. `before` is its previous
// GroupPlace in the same group, or None if its group has changed or the job was finished. Returns false if the job must
// not start to run, because another job may be the head.
bool place_updated(GroupPlace before, JobStatus status, GroupPlace *place) noexcept;

}  // namespace jobq::core
