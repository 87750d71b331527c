// Shards: databases over which jobs are distributed. The ids of a shard's jobs contain its shard number: id = sequence
// number * kShards + shard number. Pure.
#pragma once

#include <cstdint>

namespace jobq::core {

constexpr int kShards = 1024;
// Value for a database that is not a shard. Its ids are consecutive integers.
constexpr int kNoShard = -1;
// Largest id of a shard: JavaScript numbers represent integers exactly up to here.
constexpr std::int64_t kLastShardedId = (std::int64_t{1} << 53) - 1;

bool is_shard(std::int64_t shard) noexcept;

// Returns the shard number that an id contains, if a shard has generated the id.
int shard_of(std::int64_t id) noexcept;

// Returns the smallest id of the shard that is greater than `last`, the last used id (0 if no id has been used).
std::int64_t next_id_of(int shard, std::int64_t last) noexcept;

}  // namespace jobq::core
