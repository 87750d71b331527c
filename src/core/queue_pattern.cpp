// See queue_pattern.h.
#include "core/queue_pattern.h"

#include <algorithm>
#include <cmath>

namespace jobq::core {

namespace {

constexpr char kEscape = '\\';

// Returns the number of bytes of the first character of a text that is not empty.
std::size_t first_character(std::string_view text, CharacterBytes bytes_at) noexcept {
    const int bytes = bytes_at(text.data());
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(bytes, 1)), 1, text.size());
}

// Removes one character from the name and its counterpart from the pattern. Returns false, without removing anything,
// if the pattern begins with "%" or its first character does not match.
bool match_character(std::string_view *pattern, std::string_view *name, CharacterBytes bytes_at) noexcept {
    if (pattern->empty() || pattern->front() == '%') return false;
    const std::size_t bytes = first_character(*name, bytes_at);
    if (pattern->front() == '_') {
        pattern->remove_prefix(1);
        name->remove_prefix(bytes);
        return true;
    }
    std::string_view literal = *pattern;
    if (literal.front() == kEscape) literal.remove_prefix(1);
    if (literal.substr(0, bytes) != name->substr(0, bytes)) return false;
    literal.remove_prefix(bytes);
    *pattern = literal;
    name->remove_prefix(bytes);
    return true;
}

}  // namespace

bool is_whole_pattern(std::string_view pattern) noexcept {
    for (std::size_t i = 0; i < pattern.size(); i++)
        if (pattern[i] == kEscape && ++i == pattern.size()) return false;
    return true;
}

bool matches_pattern(std::string_view pattern, std::string_view name, CharacterBytes bytes_at) noexcept {
    // The rest of the pattern after the last "%", and the part of the name with which this rest must be compared next
    // if the current comparison fails.
    std::string_view after_any, next_try;
    bool any = false;
    while (!name.empty()) {
        if (match_character(&pattern, &name, bytes_at)) continue;
        if (!pattern.empty() && pattern.front() == '%') {
            pattern.remove_prefix(1);
            after_any = pattern;
            next_try = name;
            any = true;
            continue;
        }
        if (!any) return false;
        next_try.remove_prefix(first_character(next_try, bytes_at));
        name = next_try;
        pattern = after_any;
    }
    return pattern.find_first_not_of('%') == std::string_view::npos;
}

double place_in_random_order(double random, int weight) noexcept { return -std::log1p(-random) / weight; }

}  // namespace jobq::core
