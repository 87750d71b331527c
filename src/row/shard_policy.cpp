// See shard_policy.h.
#include "row/shard_policy.h"

namespace jobq::core {

bool is_shard(std::int64_t shard) noexcept { return shard >= 0 && shard < kShards; }

int shard_of(std::int64_t id) noexcept { return static_cast<int>(((id % kShards) + kShards) % kShards); }

// Never returns an id below kShards, because the first id of shard 0 would otherwise be 0, which is not a valid id.
std::int64_t next_id_of(int shard, std::int64_t last) noexcept {
    const std::int64_t rounds = last < kShards ? 1 : last / kShards;
    const std::int64_t id = rounds * kShards + shard;
    return id > last ? id : id + kShards;
}

}  // namespace jobq::core
