// Parses words that name the values of an enum. An array next to the enum, in the same order, is the only list of the
// words.
#pragma once

#include <cstddef>
#include <string_view>

namespace jobq::core {

// Returns false and does not set `*choice` if the word is not in the array.
template <typename Choice, std::size_t count>
constexpr bool parse_choice(const std::string_view (&names)[count], std::string_view word, Choice *choice) noexcept {
    for (std::size_t i = 0; i < count; i++) {
        if (word != names[i]) continue;
        *choice = static_cast<Choice>(i);
        return true;
    }
    return false;
}

}  // namespace jobq::core
