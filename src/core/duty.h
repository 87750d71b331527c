// The duties of the tick: what must happen to jobs although no session calls a function.
#pragma once

#include <iterator>

namespace jobq::core {

// In the order in which a round performs them.
enum class Duty { Rescue, Cancel, Promote, Schedules, Unblock, Prune, Repair, Reconcile };

struct DutyTraits {
    const char *name;   // in jobq_tick(), metrics, and the server log
    bool changes_jobs;  // skipped while a dump is being restored, and in a copy
    bool chore;         // once per tick interval is enough, because no job waits for it
    bool has_column;    // in jobq.workers; jobq.schedules shows what schedules have enqueued
};

constexpr DutyTraits kDuties[] = {
    {"rescue", true, false, true},      //
    {"cancel", true, false, true},      //
    {"promote", true, false, true},     //
    {"schedules", true, false, false},  //
    {"unblock", true, false, true},     //
    {"prune", true, true, true},        //
    {"repair", true, true, true},       //
    {"reconcile", false, false, true},
};
constexpr int kDutyCount = std::size(kDuties);
static_assert(kDutyCount == static_cast<int>(Duty::Reconcile) + 1);

constexpr const DutyTraits &traits_of(Duty duty) noexcept { return kDuties[static_cast<int>(duty)]; }

// Why the jobs of a database are left alone.
enum class Rest : unsigned char { None, Restore, Copy };

}  // namespace jobq::core
