// The shard of a database among others. The ids of its jobs contain it: sequence * kShards + shard. Pure.
#pragma once

#include <cstdint>

namespace jobq::core {

constexpr int kShards = 1024;
// The database is not a shard: ids count one by one.
constexpr int kNoShard = -1;
// Largest id of a shard: JavaScript numbers represent integers exactly up to here.
constexpr std::int64_t kLastShardedId = (std::int64_t{1} << 53) - 1;

bool is_shard(std::int64_t shard) noexcept;

// Returns the shard that an id contains, if a shard has given it.
int shard_of(std::int64_t id) noexcept;

// Returns the first id of the shard after `last`, the last id given, which is 0 if none was.
std::int64_t next_id_of(int shard, std::int64_t last) noexcept;

}  // namespace jobq::core
