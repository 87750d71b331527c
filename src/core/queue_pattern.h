// Patterns that select queues by name, with the syntax of LIKE: "%" stands for any characters, "_" stands for one
// character, and a backslash makes the next character ordinary. A pattern must match the whole name.
#pragma once

#include <string_view>

namespace jobq::core {

// Maximum length of a pattern in bytes, so that every byte of the longest name of a queue can follow a backslash.
constexpr std::size_t kMaxPatternBytes = 126;

// Returns the number of bytes of the character at the pointer. The pointer must not be at the end of a string.
using CharacterBytes = int (*)(const char *);

// Returns whether the pattern has a character after each backslash that makes the next character ordinary.
bool is_whole_pattern(std::string_view pattern) noexcept;

// Returns whether the pattern matches the name. The time is at most proportional to the product of their lengths.
bool matches_pattern(std::string_view pattern, std::string_view name, CharacterBytes bytes_at) noexcept;

// Returns the place of a queue in a random order of queues: the queue with the lowest place is the first. A queue with
// the weight w is the first of all queues with the probability w / (sum of all weights), and the order of the other
// queues follows the same rule. `random` is at least 0 and less than 1.
double place_in_random_order(double random, int weight) noexcept;

}  // namespace jobq::core
