// The shard of a database among others, which the ids of its jobs carry: sequence * kShards + shard. Pure.
#pragma once

#include <cstdint>

namespace jobq::core {

constexpr int kShards = 1024;
// No shard: ids count one by one.
constexpr int kNoShard = -1;
// JavaScript's numbers hold integers up to here.
constexpr std::int64_t kLastShardedId = (std::int64_t{1} << 53) - 1;

bool is_shard(std::int64_t shard) noexcept;

// The shard that an id carries, if it was made by one.
int shard_of(std::int64_t id) noexcept;

// The first id of the shard behind `last`, the last one that was given; 0: none was.
std::int64_t next_id_of(int shard, std::int64_t last) noexcept;

}  // namespace jobq::core
