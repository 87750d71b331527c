// See text_policy.h.
#include "metrics/text_policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace jobq::core {

namespace {

// Whole numbers below this limit are written without a fraction or exponent.
constexpr double kWhole = 1e15;

std::size_t copy(std::string_view text, char *to) noexcept {
    std::copy(text.begin(), text.end(), to);
    return text.size();
}

std::size_t write_byte(char byte, char *to) noexcept {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto value = static_cast<unsigned char>(byte);
    const char written[] = {'\\', 'x', kDigits[value >> 4], kDigits[value & 15]};
    return copy({written, sizeof(written)}, to);
}

bool is_hex_digit(char c) noexcept {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Returns whether the text begins like the output of write_byte(): \x and two hexadecimal digits, in upper or lower
// case.
bool begins_like_byte(std::string_view text) noexcept {
    return text.size() >= 4 && text[0] == '\\' && text[1] == 'x' && is_hex_digit(text[2]) && is_hex_digit(text[3]);
}

}  // namespace

std::string_view escaped_in_help(char c) noexcept {
    if (c == '\\') return "\\\\";
    if (c == '\n') return "\\n";
    return {};
}

std::string_view escaped_in_label(char c) noexcept { return c == '"' ? "\\\"" : escaped_in_help(c); }

std::size_t utf8_sequence(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (text.empty()) return 0;
    const unsigned char first = byte(0);
    if (first < 0x80) return 1;
    if (first < 0xC2 || first > 0xF4) return 0;
    const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (text.size() < length) return 0;
    // The range of the second byte excludes overlong forms, surrogates, and code points above U+10FFFF.
    const unsigned char lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned char highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(1) < lowest || byte(1) > highest) return 0;
    for (std::size_t i = 2; i < length; i++)
        if ((byte(i) & 0xC0) != 0x80) return 0;
    return length;
}

std::size_t write_as_utf8(std::string_view name, char *to) noexcept {
    std::size_t written = 0;
    while (!name.empty()) {
        const std::size_t valid = begins_like_byte(name) ? 0 : utf8_sequence(name);
        written += valid == 0 ? write_byte(name[0], to + written) : copy(name.substr(0, valid), to + written);
        name.remove_prefix(valid == 0 ? 1 : valid);
    }
    return written;
}

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
