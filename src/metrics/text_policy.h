// Formats values, labels, and help for the exposition format of Prometheus (version 0.0.4), and turns names that are
// not valid UTF-8 into labels. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace jobq::core {

// Return the escape sequence of a character in a label value or in a help text, in which quotes need no escape. Return
// an empty string if the character needs no escape.
std::string_view escaped_in_label(char c) noexcept;
std::string_view escaped_in_help(char c) noexcept;

// Returns the length of the valid UTF-8 sequence at the start of the text, or 0 if there is none. RFC 3629: only the
// shortest form, no surrogates, and at most U+10FFFF.
std::size_t utf8_sequence(std::string_view text) noexcept;

// Writes the name as valid UTF-8 and returns its length in bytes, at most kUtf8Growth per byte of the name. Valid
// sequences are copied; each other byte becomes \xHH. If a backslash in the name is followed by x and two hexadecimal
// digits, it becomes \x5C, so that different names stay different.
constexpr std::size_t kUtf8Growth = 4;
std::size_t write_as_utf8(std::string_view name, char *to) noexcept;

// Writes the shortest text that is read back as the same number. Returns its length.
constexpr std::size_t kValueBytes = 32;
std::size_t write_value(double value, char *to) noexcept;

}  // namespace jobq::core
