// The duties of the tick: what must happen to jobs although nobody calls.
#pragma once

namespace jobq::core {

enum class Duty { Rescue, Cancel, Promote, Schedules, Unblock, Prune, Repair, Reconcile };
constexpr int kDutyCount = 8;

// Why the jobs of a database are left alone.
enum class Rest : unsigned char { None, Restore, Copy };

const char *duty_name(Duty duty) noexcept;

}  // namespace jobq::core
