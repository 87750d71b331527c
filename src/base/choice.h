// Words that name the values of an enum: an array beside it, in its order, is their one list.
#pragma once

#include <cstddef>
#include <string_view>

namespace jobq::core {

// False when the word is none of them; `*choice` is then left alone.
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
