// The duties of the background worker: the work that must be done even if no session calls a function, such as rescuing
// lost jobs and firing schedules. One execution of all duties is called a round, or a tick.
#pragma once

#include <iterator>

namespace jobq::core {

// A round performs the duties in this order.
enum class Duty { Rescue, Cancel, Expire, Promote, Schedules, Unblock, Batches, Prune, Repair, Reconcile };

struct DutyTraits {
    const char *name;   // name in the result of jobq_tick(), in metrics, and in the server log
    bool changes_jobs;  // the duty changes jobs, so it is skipped while a dump is being restored and in a copy of the
                        // database
    bool chore;         // the duty runs only once per tick interval, because no job waits for it
    bool has_column;    // jobq.background_workers has a column for the duty (jobq.schedules and jobq.batches show what
                        // schedules and batches have enqueued)
};

constexpr DutyTraits kDuties[] = {
    {"rescue", true, false, true},      //
    {"cancel", true, false, true},      //
    {"expire", true, false, true},      //
    {"promote", true, false, true},     //
    {"schedules", true, false, false},  //
    {"unblock", true, false, true},     //
    {"batches", true, false, false},    //
    {"prune", true, true, true},        //
    {"repair", true, true, true},       //
    {"reconcile", false, false, true},
};
constexpr int kDutyCount = std::size(kDuties);
static_assert(kDutyCount == static_cast<int>(Duty::Reconcile) + 1);

constexpr const DutyTraits &traits_of(Duty duty) noexcept { return kDuties[static_cast<int>(duty)]; }

// The reason why the background worker does not change jobs in a database: a dump is being restored, or the database is
// a copy.
enum class Rest : unsigned char { None, Restore, Copy };

}  // namespace jobq::core
