// The life of a job: what each event does to a job in each status, and which columns of its row follow from that. This
// is the only place that knows these rules. Pure; job/change_job.h applies events to rows, and docs/design.md has the
// table.
//
// The struct Life contains no texts or JSON. It only tells whether the job holds its unique key and whether its row
// keeps a result or an error.
#pragma once

#include "core/group.h"
#include "core/job.h"
#include "core/max_runtime.h"

#include <optional>
#include <type_traits>

namespace jobq::core {

// A column that may be NULL: a time, a span in microseconds, a lease, a slot, or the number of a group.
using OptInt64 = std::optional<std::int64_t>;

// The columns of jobq.jobs that events write. For each: its name in row/job_columns.h, the member of Life, and the type
// of the member.
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
    // Facts from other columns, which no event writes.
    bool has_key;    // the job wants to hold a unique key
    OptInt64 group;  // number of the job's group
    // The event that led to this state. It is not stored in a column: after_event() sets it, so it is only known until
    // the row is written. It is empty after a change with plain SQL and for a life that was read from a row.
    std::optional<Cause> cause;
};
static_assert(std::is_trivially_copyable_v<Life>, "may live where a longjmp skips destructors");

// Bit numbers for the result of differing(), which has a bit set for each column that differs. Same order as above.
enum LifeColumn : unsigned {
#define JOBQ_BIT(name, member, type) kLife##name,
    JOBQ_LIFE_COLUMNS(JOBQ_BIT)
#undef JOBQ_BIT
        kLifeColumns
};
std::uint32_t differing(const Life &a, const Life &b) noexcept;

enum class EventKind : std::uint8_t {
    Claimed,
    RescueIndexed,  // the job is running and must be added to the index that the rescue scans
    SlotsGiven,     // a running job without slots gets slots, because a limit for it has just been defined
    InCompany,      // other jobs of its worker were lost, so if this job is lost too, it is not assumed to be the cause
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
    Cancelled,     // by an operator; if the job is running, its worker is asked to stop first
    Dropped,       // by jobq, because a dependency has failed or its queue was full
    Due,
    Blocked,   // the job waits for a dependency again
    LeftLine,  // the same for a job that was waiting for its turn in a group; it waits for its turn again after its
               // dependencies
    DependenciesDone,  // all dependencies of a blocked job are done
    BecameGroupHead,   // the job is the next one of its group
    WaitOver,          // what the job awaits may have happened; its worker checks this
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
    Micros delay = 0;          // Failed, Overran: time until the next attempt; Released: 0 if the job keeps its run_at
    bool wants_retry = false;  // Failed
    bool in_company = false;   // Lost
    int max_lost = 0;          // Lost
    int max_attempts = 0;      // Replaced
    OnMaxRuntime on_max_runtime = OnMaxRuntime::Fail;  // Overran
    bool waits = false;           // Retried, StartedOver: the job must wait for its dependencies again
    bool sleeps = false;          // Waited: the job waits only until run_at
    OptInt64 deadline = {};       // Waited: when the wait times out; none: never
    OptInt64 last_step = {};      // StepSaved, Waited: the saved step; Retried: the last step that is kept
    bool rescue_indexed = false;  // Claimed: the job is added to the rescue's index immediately
    std::int64_t lease = 0;       // Claimed
    Micros timeout = 0;           // Claimed
    Micros max_runtime = 0;       // Claimed; 0: unlimited
    OptInt64 queue_slot = {}, key_slot = {}, slot_seq = {};  // Claimed, SlotsGiven
    OptInt64 group = {};                                     // Moved: number of the job's group in the new queue
};

// Deadline of a job that waits without a deadline: the timestamp "infinity".
constexpr Micros kForever = INT64_MAX;
// Returns whether a job is blocked because its worker saved a step that awaits something (event Waited). Then
// must_end_at is the time at which the wait ends.
inline bool awaits(const Life &life) noexcept {
    return life.status == JobStatus::Blocked && life.must_end_at && !life.lease && !life.rescue_indexed &&
           !life.group_waiting;
}

// Returns whether the event can happen to a job in this state. Otherwise after_event() changes nothing.
bool applies(EventKind kind, const Life &before) noexcept;
// Returns the job after the event, or the job as it was if the event does not apply.
Life after_event(const Life &before, const Event &event) noexcept;

// Returns the initial life of a job that is being enqueued. `before` contains max_attempts, has_key, and group. `waits`
// means that the job waits for its dependencies.
Life enqueued(const Life &before, Micros run_at, bool waits, Micros now) noexcept;

// Facts about a row that was changed with plain SQL. changed_by_hand() corrects the written life so that its columns
// are consistent. `place` tells whether the job is active or waits in its group; `has_left` means that it no longer
// waits in a group. `timeout` and `max_runtime` are the job's own, or else the queue's; 0: unlimited. `keeps_end`: the
// job continues to run until the time that its claim computed, even if max_runtime of the queue has changed since.
struct ByHand {
    GroupPlace place;
    bool has_left;
    Micros timeout, max_runtime;
    bool keeps_end = false;
    OptInt64 end = {};
};
Life changed_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept;
// Does the same for an inserted row. If the row comes from a dump, it contains the time until which a running job may
// run, because the queue's max_runtime may be restored only later.
Life inserted_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept;

// Returns the time at which the rescue must check a running job: when its lease or its max_runtime expires, or for
// another reason.
Micros deadline_of(const Life &life) noexcept;

}  // namespace jobq::core
