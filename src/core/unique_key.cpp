// See unique_key.h.
#include "core/unique_key.h"

namespace jobq::core {

Conflict resolve_conflict(OnConflict choice, JobStatus holder, bool started) noexcept {
    if (is_finished(holder)) return Conflict::TakeKey;
    if (choice == OnConflict::Error) return Conflict::Refuse;
    if (choice == OnConflict::Ignore) return Conflict::Existing;
    return holder == JobStatus::Processing || started ? Conflict::TakeKey : Conflict::Change;
}

Micros kept_until(Micros now, Micros unique_for) noexcept {
    return saturating_add(now, unique_for > 0 ? unique_for : 0);
}

bool key_before(std::string_view queue_a, std::string_view key_a, std::string_view queue_b,
                std::string_view key_b) noexcept {
    const int order = queue_a.compare(queue_b);
    return order != 0 ? order < 0 : key_a.compare(key_b) < 0;
}

}  // namespace jobq::core
