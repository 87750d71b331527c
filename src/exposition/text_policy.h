// How the exposition format of Prometheus (version 0.0.4) writes values, labels and help. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace jobq::core {

// What stands for a character in the value of a label, or in a help text, where quotes need not be escaped; empty: the
// character itself.
std::string_view escaped_in_label(char c) noexcept;
std::string_view escaped_in_help(char c) noexcept;

// Writes the shortest text that is read as the same number. Returns its length.
constexpr std::size_t kValueBytes = 32;
std::size_t write_value(double value, char *to) noexcept;

}  // namespace jobq::core
