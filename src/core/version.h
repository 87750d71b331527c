// Compares versions, which are numbers separated by dots, such as "1.10.0". A missing number counts as 0.
#pragma once

#include <string_view>

namespace jobq::core {

// Removes the first number and the dot after it from the version and returns the number. A number that is too large is
// clamped. A character that is not a digit or a dot ends the version.
constexpr int take_number(std::string_view *version) noexcept {
    constexpr int kHighest = 100000000;  // ten times this value still fits
    int number = 0;
    while (!version->empty() && version->front() >= '0' && version->front() <= '9') {
        if (number < kHighest) number = number * 10 + (version->front() - '0');
        version->remove_prefix(1);
    }
    if (!version->empty() && version->front() == '.')
        version->remove_prefix(1);
    else
        *version = {};
    return number;
}

// Compares two versions. The result is negative if a is older than b, 0 if they are equal, and positive otherwise.
constexpr int compare_versions(std::string_view a, std::string_view b) noexcept {
    while (!a.empty() || !b.empty()) {
        const int of_a = take_number(&a);
        const int of_b = take_number(&b);
        if (of_a != of_b) return of_a < of_b ? -1 : 1;
    }
    return 0;
}

}  // namespace jobq::core
