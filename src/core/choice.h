// Parses words that name the values of an enum. The words are listed only in an array next to the enum, in the order of
// its values.
#pragma once

#include <cstddef>
#include <string_view>

namespace jobq::core {

// Sets `*choice` to the value that the word names. Returns false, without setting `*choice`, if the word is not in the
// array.
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
