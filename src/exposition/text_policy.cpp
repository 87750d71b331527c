// See text_policy.h.
#include "exposition/text_policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace jobq::core {

namespace {

// Whole numbers up to here are written as such.
constexpr double kWhole = 1e15;

std::size_t copy(std::string_view text, char *to) noexcept {
    std::copy(text.begin(), text.end(), to);
    return text.size();
}

}  // namespace

std::string_view escaped_in_help(char c) noexcept {
    if (c == '\\') return "\\\\";
    if (c == '\n') return "\\n";
    return {};
}

std::string_view escaped_in_label(char c) noexcept { return c == '"' ? "\\\"" : escaped_in_help(c); }

std::size_t write_value(double value, char *to) noexcept {
    if (std::isnan(value)) return copy("NaN", to);
    if (std::isinf(value)) return copy(value > 0 ? "+Inf" : "-Inf", to);
    char *end = to + kValueBytes;
    const bool whole = std::abs(value) < kWhole && value == std::trunc(value);
    const std::to_chars_result written =
        whole ? std::to_chars(to, end, static_cast<std::int64_t>(value)) : std::to_chars(to, end, value);
    return static_cast<std::size_t>(written.ptr - to);
}

}  // namespace jobq::core
