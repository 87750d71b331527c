// Formats values, labels, and help texts in the exposition format of Prometheus (version 0.0.4), and converts names
// that are not valid UTF-8. All functions are pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace jobq::core {

// These functions return the escape sequence of a character in a label value or in a help text, or an empty string if
// the character needs no escape. In help texts, quotes need no escape.
std::string_view escaped_in_label(char c) noexcept;
std::string_view escaped_in_help(char c) noexcept;

// Returns the length of the valid UTF-8 sequence at the start of the text, or 0 if there is none. As in RFC 3629, a
// valid sequence has the shortest form, and its code point is not a surrogate and is at most U+10FFFF.
std::size_t utf8_sequence(std::string_view text) noexcept;

// Writes the name as valid UTF-8 and returns its length in bytes, at most kUtf8Growth per byte of the name. Valid
// sequences are copied; every other byte becomes \xHH. If a backslash in the name is followed by x and two hexadecimal
// digits, it becomes \x5C, so that different names stay different.
constexpr std::size_t kUtf8Growth = 4;
std::size_t write_as_utf8(std::string_view name, char *to) noexcept;

// Writes the shortest text that converts back to the same number. Returns its length.
constexpr std::size_t kValueBytes = 32;
std::size_t write_value(double value, char *to) noexcept;

}  // namespace jobq::core
