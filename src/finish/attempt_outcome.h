// The ways in which an attempt can end without completing its job. Each such attempt has a row in jobq.attempts, whose
// CHECK constraint (src/sql/20_tables.sql) lists the same names.
#pragma once

#include <cstdint>

namespace jobq {

enum class AttemptOutcome : std::uint8_t { Failed, Lost, Released, Snoozed, Cancelled };

constexpr const char *outcome_name(AttemptOutcome outcome) noexcept {
    constexpr const char *kNames[] = {"failed", "lost", "released", "snoozed", "cancelled"};
    return kNames[static_cast<int>(outcome)];
}

}  // namespace jobq
