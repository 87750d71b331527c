// See group.h.
#include "core/group.h"

namespace jobq::core {

std::int64_t group_hash(const HashKey &secret, std::string_view queue, std::string_view key) noexcept {
    KeyedHash hash(secret, Numbered::Group);
    hash.add_part(queue);
    hash.add_part(key);
    return hash.value();
}

bool place_inserted(JobStatus status, bool restored, bool active, GroupPlace *place) noexcept {
    const bool runs = status == JobStatus::Processing;
    if (runs && !restored) return false;
    if (is_finished(status))
        *place = restored && active && status == JobStatus::Failed ? GroupPlace::Active : GroupPlace::None;
    else if (status == JobStatus::Blocked)
        *place = GroupPlace::Waiting;
    else
        *place = restored && (active || runs) ? GroupPlace::Active : GroupPlace::Waiting;
    return true;
}

bool place_updated(GroupPlace before, JobStatus status, GroupPlace *place) noexcept {
    // The active job keeps its place, as a restored active job does. Any other job gets the place of a new job.
    return place_inserted(status, before == GroupPlace::Active, true, place);
}

}  // namespace jobq::core
