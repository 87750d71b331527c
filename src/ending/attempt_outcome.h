// How an attempt ends that does not complete its job; jobq.attempts has a row for each, whose CHECK
// (src/sql/20_tables.sql) knows the same names.
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
