// Shards: databases over which jobs are distributed. The ids of a shard's jobs contain its shard number: id = sequence
// number * kShards + shard number. This file is pure: it does not depend on the server.
#pragma once

#include <cstdint>

namespace jobq::core {

constexpr int kShards = 1024;
// Stands for a database that is not a shard. The ids of such a database are consecutive integers.
constexpr int kNoShard = -1;
// Largest id of a job. Scans use the largest 64-bit integer as the end of all ids, so they would not find that id.
constexpr std::int64_t kLastId = INT64_MAX - 1;
// Largest id that a shard can use. JavaScript numbers represent integers exactly only up to this value.
constexpr std::int64_t kLastShardedId = (std::int64_t{1} << 53) - 1;

bool is_shard(std::int64_t shard) noexcept;

// Returns the shard number in an id that a shard has generated.
int shard_of(std::int64_t id) noexcept;

// Returns the smallest id of the shard that is greater than `last`, the last used id (0 if no id has been used).
std::int64_t next_id_of(int shard, std::int64_t last) noexcept;

}  // namespace jobq::core
