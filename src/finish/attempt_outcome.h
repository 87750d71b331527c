// How an attempt ends without completing its job. Each such attempt has a row in jobq.attempts, whose CHECK constraint
// (src/sql/20_tables.sql) lists the same names.
#pragma once

#include <cstdint>

namespace jobq {

#define JOBQ_ATTEMPT_OUTCOMES(OUTCOME) \
    OUTCOME(Failed, "failed")          \
    OUTCOME(Lost, "lost")              \
    OUTCOME(Released, "released")      \
    OUTCOME(Snoozed, "snoozed")        \
    OUTCOME(Cancelled, "cancelled")

enum class AttemptOutcome : std::uint8_t {
#define JOBQ_OUTCOME(name, label) name,
    JOBQ_ATTEMPT_OUTCOMES(JOBQ_OUTCOME)
#undef JOBQ_OUTCOME
};

constexpr const char *outcome_name(AttemptOutcome outcome) noexcept {
    constexpr const char *kNames[] = {
#define JOBQ_OUTCOME(name, label) label,
        JOBQ_ATTEMPT_OUTCOMES(JOBQ_OUTCOME)
#undef JOBQ_OUTCOME
    };
    return kNames[static_cast<int>(outcome)];
}

}  // namespace jobq
