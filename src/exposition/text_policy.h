// How the exposition format of Prometheus (version 0.0.4) writes values, labels and help, and how names that are not
// valid UTF-8 become labels. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace jobq::core {

// What stands for a character in the value of a label, or in a help text, where quotes need not be escaped; empty: the
// character itself.
std::string_view escaped_in_label(char c) noexcept;
std::string_view escaped_in_help(char c) noexcept;

// Length of the valid UTF-8 sequence that the text begins with; 0 if it begins with none (RFC 3629: the shortest form,
// no surrogates, at most U+10FFFF).
std::size_t utf8_sequence(std::string_view text) noexcept;

// Writes the name as valid UTF-8, and returns how many bytes it takes, at most kUtf8Growth per byte of the name. Valid
// sequences stay. Each other byte becomes \xHH. A backslash of the name that x and two hexadecimal digits follow
// becomes \x5C, so that different names stay different.
constexpr std::size_t kUtf8Growth = 4;
std::size_t write_as_utf8(std::string_view name, char *to) noexcept;

// Writes the shortest text that is read as the same number. Returns its length.
constexpr std::size_t kValueBytes = 32;
std::size_t write_value(double value, char *to) noexcept;

}  // namespace jobq::core
