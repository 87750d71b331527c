// See queue_settings_policy.h.
#include "queues/queue_settings_policy.h"

#include <algorithm>

namespace jobq::core {

int choice_of(std::string_view words, std::string_view word) noexcept {
    for (int i = 0; !words.empty(); i++) {
        const std::size_t end = std::min(words.find(' '), words.size());
        if (words.substr(0, end) == word) return i;
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return -1;
}

Micros bounded(const QueueSetting &setting, Micros span) noexcept {
    return std::clamp<Micros>(span, setting.lowest, setting.highest);
}

}  // namespace jobq::core
