// The horizon of the rescue: the time until which the rescue does not need to check the running jobs in its index.
#pragma once

#include "compat/pg.h"

namespace jobq {

// The result of a scan of all jobs in the rescue's index.
struct Horizon {
    TimestampTz deadline;      // before this time no job needs the rescue; DT_NOBEGIN: both members are unknown
    TimestampTz cancel_asked;  // earliest time of a request to cancel one of the jobs; DT_NOEND: none
};
constexpr Horizon kUnknownHorizon = {DT_NOBEGIN, DT_NOBEGIN};

}  // namespace jobq
