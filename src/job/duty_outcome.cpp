// See duty_outcome.h.
#include "compat/pg.h"

#include "job/duty_outcome.h"

namespace jobq {

void leave_out(DutyOutcome *outcome, int64 job, const FailureText &failure) {
    if (outcome->failed++ == 0)
        snprintf(outcome->error, sizeof(outcome->error), "job %lld: %s", static_cast<long long>(job), failure.message);
}

}  // namespace jobq
