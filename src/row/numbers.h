// Compute the numbers of lanes, groups, limits, and round-robin keys in rows of jobq.jobs. The numbers are hashes of
// names, keyed with the secret of the database (jobq.hash_secret, core/keyed_hash.h), so that a role cannot choose
// names for its own queue whose numbers collide with the numbers of another queue. Each session reads the secret once.
// The functions raise 55000 if the row of jobq.hash_secret is missing.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"

#include <string_view>

namespace jobq {

// `requires_sorted` must be a canonical set.
int64 lane_number(std::string_view queue, std::string_view kind, int32 version, const Names &requires_sorted);
int64 group_number(std::string_view queue, std::string_view key);
int64 queue_limit_id(std::string_view queue);
int64 key_limit_id(std::string_view queue, std::string_view key);
// `concurrency_key` is empty for a job without one.
int64 round_robin_key_of(std::string_view concurrency_key);

}  // namespace jobq
