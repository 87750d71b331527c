// See duty_policy.h.
#include "duties/duty_policy.h"

namespace jobq::core {

const char *duty_name(Duty duty) noexcept {
    constexpr const char *names[kDutyCount] = {"rescue",  "cancel", "promote", "schedules",
                                               "unblock", "prune",  "repair",  "reconcile"};
    return names[static_cast<int>(duty)];
}

}  // namespace jobq::core
