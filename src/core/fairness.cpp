// See fairness.h.
#include "core/fairness.h"

namespace jobq::core {

namespace {

using Place = __int128;

Place place_of(const ClaimKey &key, Micros ageing) {
    return static_cast<Place>(key.run_at) + static_cast<Place>(key.priority) * ageing;
}

}  // namespace

bool aged_before(const ClaimKey &a, const ClaimKey &b, Micros ageing) noexcept {
    const Place place_a = place_of(a, ageing), place_b = place_of(b, ageing);
    if (place_a != place_b) return place_a < place_b;
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.id < b.id;
}

ClaimKey aged_limit(std::int16_t priority, const ClaimKey &other, Micros ageing) noexcept {
    const Place moment = place_of(other, ageing) - static_cast<Place>(priority) * ageing;
    if (moment > INT64_MAX) return {INT64_MAX, INT64_MAX, priority};
    if (moment < INT64_MIN) return {INT64_MIN, INT64_MIN, priority};
    const auto run_at = static_cast<std::int64_t>(moment);
    if (priority == other.priority) return {run_at, other.id, priority};
    return {run_at, priority < other.priority ? INT64_MAX : INT64_MIN, priority};
}

std::int64_t round_robin_hash(const HashKey &secret, std::string_view concurrency_key) noexcept {
    KeyedHash hash(secret, Numbered::RoundRobinKey);
    hash.add_bytes(concurrency_key);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(hash.value()) >> 1);
}

Round begin_round(std::int64_t at) noexcept { return {at, at, false}; }

bool go_to(Round *round, std::int64_t key) noexcept {
    if (key <= round->at) {
        if (round->wrapped) return false;
        round->wrapped = true;
    }
    if (round->wrapped && key > round->start) return false;
    round->at = key;
    return true;
}

void found_job(Round *round) noexcept {
    round->start = round->at;
    round->wrapped = false;
}

}  // namespace jobq::core
