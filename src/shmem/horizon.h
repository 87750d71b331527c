// The horizon of the rescue: until when it need not look at the running jobs that are rescue-indexed.
#pragma once

#include "compat/pg.h"

namespace jobq {

// What a look at all rescue-indexed jobs has found.
struct Horizon {
    TimestampTz deadline;      // before this none of them needs the rescue; DT_NOBEGIN: unknown, the other too
    TimestampTz cancel_asked;  // the earliest time at which one of them was asked to cancel; DT_NOEND: none was
};
constexpr Horizon kUnknownHorizon = {DT_NOBEGIN, DT_NOBEGIN};

}  // namespace jobq
