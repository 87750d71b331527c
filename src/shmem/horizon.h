// The horizon of the rescue: the time until which the rescue need not look at the rescue-indexed running jobs.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The result of a look at all rescue-indexed jobs.
struct Horizon {
    TimestampTz deadline;      // before this time none of them needs the rescue; DT_NOBEGIN: both values are unknown
    TimestampTz cancel_asked;  // earliest time at which one of them was asked to cancel; DT_NOEND: none was
};
constexpr Horizon kUnknownHorizon = {DT_NOBEGIN, DT_NOBEGIN};

}  // namespace jobq
