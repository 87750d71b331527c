// The life of a job: what each event does to a job in each status, and which columns of its row follow from that. This
// is the only place that knows these rules. Pure; job/change_job.h applies events to rows, and docs/design.md has the
// table.
//
// A life contains no texts or JSON. For a key it only says whether the job holds it, and for a result or error only
// whether the row keeps one.
#pragma once

#include "core/group.h"
#include "core/job.h"
#include "core/max_runtime.h"

#include <optional>
#include <type_traits>

namespace jobq::core {

// A time, a span in microseconds, a lease, a slot, the number of a group, or nothing.
using OptInt64 = std::optional<std::int64_t>;

// The columns of jobq.jobs that belong to a job's life: name of the column in row/job_columns.h, member, and type of
// the column.
// clang-format off
#define JOBQ_LIFE_COLUMNS(COLUMN)                            \
    COLUMN(Status, status, Status)                           \
    COLUMN(Attempts, attempts, Count)                        \
    COLUMN(MaxAttempts, max_attempts, Count)                 \
    COLUMN(LostAttempts, lost_attempts, Count)               \
    COLUMN(RunAt, run_at, Moment)                            \
    COLUMN(StartedAt, started_at, Number)                    \
    COLUMN(LastHeartbeat, last_heartbeat, Number)            \
    COLUMN(FinishedAt, finished_at, Number)                  \
    COLUMN(CancelRequestedAt, cancel_requested_at, Number)   \
    COLUMN(Lease, lease, Number)                             \
    COLUMN(CompletedLease, completed_lease, Number)          \
    COLUMN(CompanyLease, company_lease, Number)              \
    COLUMN(LeaseTimeout, lease_timeout, Span)                \
    COLUMN(MustEndAt, must_end_at, Number)                   \
    COLUMN(RescueIndexed, rescue_indexed, Flag)              \
    COLUMN(QueueSlot, queue_slot, Number)                    \
    COLUMN(KeySlot, key_slot, Number)                        \
    COLUMN(SlotSeq, slot_seq, Number)                        \
    COLUMN(Ready, ready, Flag)                               \
    COLUMN(Due, due, Flag)                                   \
    COLUMN(GroupWaiting, group_waiting, Number)              \
    COLUMN(GroupActive, group_active, Number)                \
    COLUMN(HoldsKey, holds_key, Flag)                        \
    COLUMN(Steps, steps, Number)                             \
    COLUMN(Result, has_result, Kept)                         \
    COLUMN(Error, has_error, Kept)
// clang-format on

// The types of the members.
using LifeStatus = JobStatus;
using LifeCount = int;
using LifeMoment = Micros;
using LifeNumber = OptInt64;
using LifeSpan = OptInt64;
using LifeFlag = bool;
using LifeKept = bool;  // true: the value in the column stays; false: the column is cleared

enum class EventKind : std::uint8_t;
// The event that gave a job its current state, and when it happened.
struct Cause {
    EventKind kind;
    Micros at;
};

struct Life {
#define JOBQ_MEMBER(name, member, type) Life##type member;
    JOBQ_LIFE_COLUMNS(JOBQ_MEMBER)
#undef JOBQ_MEMBER
    // Facts from columns that no event writes.
    bool has_key;    // the job wants to hold a unique key
    OptInt64 group;  // number of the job's group
    // The cause is in no column: after_event() sets it, and it is known until the life is written. It is empty for a
    // manual change and for a life that was read from a row.
    std::optional<Cause> cause;
};
static_assert(std::is_trivially_copyable_v<Life>, "may live where a longjmp skips destructors");

// Bits of the columns that differ, in the order above.
enum LifeColumn : unsigned {
#define JOBQ_BIT(name, member, type) kLife##name,
    JOBQ_LIFE_COLUMNS(JOBQ_BIT)
#undef JOBQ_BIT
        kLifeColumns
};
std::uint32_t differing(const Life &a, const Life &b) noexcept;

enum class EventKind : std::uint8_t {
    Claimed,
    RescueIndexed,  // the job runs, and must be in the rescue's index from now on
    SlotsGiven,     // a running job without slots gets them, because its limit is new
    InCompany,      // its worker has lost other jobs, so if this job is lost too, it is not to blame
    Heartbeat,
    Completed,
    Failed,     // its worker has reported a failure
    Released,   // its worker gives the job back; the attempt does not count
    StepSaved,  // its worker has saved a step
    // Its worker has saved a step and gives the job back until a time or until what it awaits has happened. The attempt
    // does not count.
    Waited,
    Lost,          // its worker is silent
    Overran,       // it ran longer than max_runtime
    CancelForced,  // its worker was asked to stop and did not
    Cancelled,     // by an operator; a worker is asked to stop first
    Dropped,       // by jobq, because a dependency has failed or its queue was full
    Due,
    Blocked,           // it waits for a dependency again
    LeftLine,          // the same for a job in the line of its group, which it enters again after its dependencies
    DependenciesDone,  // of a blocked job
    BecameGroupHead,   // the job is the next one of its group
    WaitOver,          // what it awaits may have happened; its worker checks
    Rescheduled,
    Retried,      // runs now, with at least one more attempt
    StartedOver,  // runs at a given time, with all its attempts
    Replaced,     // an enqueue with the same key has replaced the job
    KeyTaken,     // an enqueue with the same key has taken the key of this running job
    Moved,        // moved to another queue
};
constexpr int kEventKinds = static_cast<int>(EventKind::Moved) + 1;

// An event. The comment on a member names the kinds of events that use it; for all others it keeps its default.
struct Event {
    EventKind kind;
    Micros now;
    Micros run_at = 0;         // Rescheduled, StartedOver, Replaced, and Waited if the job sleeps
    Micros delay = 0;          // Failed, Overran: time until the next attempt; Released: 0 to return to the old place
    bool wants_retry = false;  // Failed
    bool in_company = false;   // Lost
    int max_lost = 0;          // Lost
    int max_attempts = 0;      // Replaced
    OnMaxRuntime on_max_runtime = OnMaxRuntime::Fail;  // Overran
    bool waits = false;                                // Retried, StartedOver: the job waits for its dependencies again
    bool sleeps = false;                               // Waited: the job waits only for the time run_at
    OptInt64 deadline = {};                            // Waited: when the wait times out; none: never
    OptInt64 last_step = {};                           // StepSaved, Waited; Retried: last of the steps that stay
    bool rescue_indexed = false;                       // Claimed: the job enters the rescue's index at once
    std::int64_t lease = 0;                            // Claimed
    Micros timeout = 0;                                // Claimed
    Micros max_runtime = 0;                            // Claimed; 0: unlimited
    OptInt64 queue_slot = {}, key_slot = {}, slot_seq = {};  // Claimed, SlotsGiven
    OptInt64 group = {};                                     // Moved: number of the job's group in the new queue
};

// Deadline of a job that waits without a deadline: the timestamp "infinity".
constexpr Micros kForever = INT64_MAX;
// Returns whether a job is blocked because its worker awaits something. In that case must_end_at is the end of the
// wait.
inline bool awaits(const Life &life) noexcept {
    return life.status == JobStatus::Blocked && life.must_end_at && !life.lease && !life.rescue_indexed &&
           !life.group_waiting;
}

// Returns whether the event can happen to such a job. An event that cannot happen changes nothing.
bool applies(EventKind kind, const Life &before) noexcept;
// Returns the job after the event, or the job as it was if the event does not apply.
Life after_event(const Life &before, const Event &event) noexcept;

// Returns a job that is being enqueued. `before` has max_attempts, has_key, and group. `waits`: the job waits for its
// dependencies.
Life enqueued(const Life &before, Micros run_at, bool waits, Micros now) noexcept;

// Facts about a row that was changed with plain SQL, for changed_by_hand(), which returns the life that follows from
// what was written. `place` is the job's place in its group; `has_left` means that it no longer waits in a group.
// `timeout` and `max_runtime` are the job's own, or else the queue's; 0: unlimited. `keeps_end`: the job continues to
// run with the end that its claim set, whatever the queue's max_runtime is by now.
struct ByHand {
    GroupPlace place;
    bool has_left;
    Micros timeout, max_runtime;
    bool keeps_end = false;
    OptInt64 end = {};
};
Life changed_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept;
// Returns the same for an inserted row. A dump contains the end of each running job, because the queue's max_runtime
// may be restored later.
Life inserted_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept;

// Returns when the first of a running job's clocks expires, or when the rescue must check the job for another reason.
Micros deadline_of(const Life &life) noexcept;

}  // namespace jobq::core
