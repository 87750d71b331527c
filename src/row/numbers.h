// Computes the numbers that represent lanes, groups, limits, and round-robin keys in the rows of jobq.jobs. The numbers
// are hashes of names, keyed with the secret of the database (jobq.hash_secret, core/keyed_hash.h), so that a role
// cannot choose names in its own queue to make their numbers collide with numbers in another queue. Each session caches
// the secret. The functions raise 55000 if the row of jobq.hash_secret is missing.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"

#include <string_view>

namespace jobq {

// `requires_sorted` must be sorted and without duplicates (core::canonical_set()).
int64 lane_number(std::string_view queue, std::string_view kind, int32 version, const Names &requires_sorted,
                  const Names &limits_sorted);
int64 group_number(std::string_view queue, std::string_view key);
int64 queue_limit_id(std::string_view queue);
int64 key_limit_id(std::string_view queue, std::string_view key);
int64 kind_limit_id(std::string_view queue, std::string_view kind);
int64 named_limit_id(std::string_view name);
// `concurrency_key` is empty if the job has no concurrency key.
int64 round_robin_key_of(std::string_view concurrency_key);

}  // namespace jobq
