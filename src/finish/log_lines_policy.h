// Decides how many log lines an attempt can store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace jobq::core {

enum class LogLevel : std::uint8_t { Debug, Info, Warning, Error };
// A CHECK constraint of jobq.log_lines (src/sql/20_tables.sql) lists these names, and "operator" for the lines about
// operators, which workers cannot write.
constexpr std::string_view kLogLevelNames[] = {"debug", "info", "warning", "error"};

// Limits on the lines of one attempt, so that a worker that writes lines in a loop cannot fill the disk.
constexpr int kMaxLogLines = 1000;
constexpr int kMaxLogBytes = 256 * 1024;
constexpr std::size_t kMaxLogLineBytes = 8192;  // longer lines are truncated at a character boundary

constexpr int kMaxOperatorLines = 100;  // number of lines about operators that a job keeps

// What an attempt has stored so far.
struct StoredLines {
    int lines;
    int bytes;
    bool full;  // a line was dropped
};
// Adds a line of this length to *stored and returns true, or returns false if the line must be dropped. Once a line has
// been dropped, all later lines are dropped too, so that the stored lines have no gap.
bool store_line(StoredLines *stored, std::size_t bytes) noexcept;

}  // namespace jobq::core
