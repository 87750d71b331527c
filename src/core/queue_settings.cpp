// See queue_settings.h.
#include "core/queue_settings.h"

#include <algorithm>

namespace jobq::core {

int split_choices(std::string_view words, std::string_view (&choices)[kMostChoices]) noexcept {
    int count = 0;
    while (!words.empty() && count < kMostChoices) {
        const std::size_t end = std::min(words.find(' '), words.size());
        choices[count++] = words.substr(0, end);
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return count;
}

int choice_of(std::string_view words, std::string_view word) noexcept {
    std::string_view choices[kMostChoices];
    const int count = split_choices(words, choices);
    const std::string_view *found = std::find(choices, choices + count, word);
    return found == choices + count ? -1 : static_cast<int>(found - choices);
}

Micros bounded(const QueueSetting &setting, Micros span) noexcept {
    return std::clamp<Micros>(span, setting.lowest, setting.highest);
}

}  // namespace jobq::core
