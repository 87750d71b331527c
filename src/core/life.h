// The rules for the life of a job: what each event does to a job in each status, and which columns of the job's row
// follow from the status. No other file contains these rules. job/change_job.h applies events to rows, and
// docs/internals/life.md shows the rules as a table.
//
// The struct Life does not contain texts or JSON values. Instead, it contains flags that tell whether the job holds its
// unique key, and whether the job's row keeps its result and its error.
#pragma once

#include "core/group.h"
#include "core/job.h"
#include "core/max_runtime.h"

#include <optional>
#include <type_traits>

namespace jobq::core {

// A column that may be NULL: a time, a span in microseconds, a lease, a slot, or the number of a group.
using OptInt64 = std::optional<std::int64_t>;

// The columns of jobq.jobs that events write. Each line contains the column's name in row/job_columns.h, the member of
// Life, and the type of this member.
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
    COLUMN(ExpiresAt, expires_at, Number)                    \
    COLUMN(KindSlot, kind_slot, Number)                      \
    COLUMN(LimitSlot1, limit_slot1, Number)                  \
    COLUMN(LimitSlot2, limit_slot2, Number)                  \
    COLUMN(Result, has_result, Kept)                         \
    COLUMN(Error, has_error, Kept)
// clang-format on

// The types of the members of Life.
using LifeStatus = JobStatus;
using LifeCount = int;
using LifeMoment = Micros;
using LifeNumber = OptInt64;
using LifeSpan = OptInt64;
using LifeFlag = bool;
using LifeKept = bool;  // true: the value in the column stays; false: the column is cleared

enum class EventKind : std::uint8_t;
// The event that gave a job its current state, and the time at which it happened.
struct Cause {
    EventKind kind;
    Micros at;
};

struct Life {
#define JOBQ_MEMBER(name, member, type) Life##type member;
    JOBQ_LIFE_COLUMNS(JOBQ_MEMBER)
#undef JOBQ_MEMBER
    // Facts from columns that are not in the table above.
    bool has_key;    // the job wants to hold a unique key
    OptInt64 group;  // number of the job's group
    // The event that led to this state. It is set by after_event() and not stored in the row. So the member is empty if
    // the life was read from a row or has been changed with plain SQL.
    std::optional<Cause> cause;
};
static_assert(std::is_trivially_copyable_v<Life>, "may live where a longjmp skips destructors");

// Bit numbers in the result of differing(), in which one bit is set for each column that differs. The columns have the
// same order as in JOBQ_LIFE_COLUMNS.
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
    // The job's worker has saved a step and releases the job until a given time, or until something that the job awaits
    // has happened. The attempt does not count.
    Waited,
    Lost,          // its worker has stopped sending heartbeats
    Overran,       // it ran longer than max_runtime
    CancelForced,  // its worker was asked to stop but did not stop
    Cancelled,     // by an operator; if the job is running, its worker is asked to stop first
    Dropped,       // by jobq, because a dependency has failed or its queue was full
    Expired,       // no worker has claimed the job before expires_at
    Due,
    Blocked,   // the job waits for a dependency again
    LeftLine,  // a job that was waiting for its turn in a group waits for a dependency again; after its dependencies,
               // it waits for its turn again
    DependenciesDone,  // all dependencies of a blocked job are done
    BecameGroupHead,   // the job is the next one of its group
    WaitOver,          // what the job awaits might have happened; its worker checks this
    Rescheduled,
    Retried,      // runs again at a given time, with at least one more attempt
    StartedOver,  // runs again at a given time, and its number of attempts is reset
    Replaced,     // an enqueue with the same key has replaced the job
    KeyTaken,     // an enqueue with the same key has taken the key of this running job
    Moved,        // moved to another queue
    PassedOver,   // the failed head of a halted group: the next job of the group becomes the head
};
constexpr int kEventKinds = static_cast<int>(EventKind::PassedOver) + 1;

// An event. The comment on a member names the kinds of events that use the member. In all other events, the member has
// its default value.
struct Event {
    EventKind kind;
    Micros now;
    Micros run_at = 0;         // Rescheduled, Retried, StartedOver, Replaced, and Waited if the job sleeps
    Micros delay = 0;          // Failed, Overran: time until the next attempt; Released: 0 if the job keeps its run_at
    bool wants_retry = false;  // Failed
    bool in_company = false;   // Lost
    int max_lost = 0;          // Lost
    int max_attempts = 0;      // Replaced; Retried: 0 if the job keeps its max_attempts
    OptInt64 expires_at = {};  // Replaced: when the job expires; none: never
    OnMaxRuntime on_max_runtime = OnMaxRuntime::Fail;  // Overran
    bool waits = false;           // Retried, StartedOver: the job must wait for its dependencies again
    bool sleeps = false;          // Waited: the job waits only until run_at
    OptInt64 deadline = {};       // Waited: when the wait times out; none: never
    OptInt64 last_step = {};      // StepSaved, Waited: the saved step; Retried: the last step that is kept
    bool rescue_indexed = false;  // Claimed: the job is added to the rescue's index immediately
    std::int64_t lease = 0;       // Claimed; Completed: the lease in the worker's report
    Micros timeout = 0;           // Claimed
    Micros max_runtime = 0;       // Claimed; 0: unlimited
    OptInt64 queue_slot = {}, key_slot = {}, kind_slot = {};     // Claimed, SlotsGiven
    OptInt64 limit_slot1 = {}, limit_slot2 = {}, slot_seq = {};  // Claimed, SlotsGiven
    OptInt64 group = {};                                         // Moved: number of the job's group in the new queue
    bool halts_group = false;  // Failed, Lost, Overran: if the job fails permanently, it stays the head of its group
};

// Value of must_end_at for a job that waits without a time limit: the timestamp "infinity".
constexpr Micros kForever = INT64_MAX;
// Returns whether a job is blocked because its worker saved a step that awaits something (event Waited). In this case,
// must_end_at is the time at which the wait times out.
inline bool awaits(const Life &life) noexcept {
    return life.status == JobStatus::Blocked && life.must_end_at && !life.lease && !life.rescue_indexed &&
           !life.group_waiting;
}

// Returns whether the job is the failed head of a halted group. The next job of the group does not become the head
// until this job is retried, canceled, deleted, or passed over.
inline bool halts_group(const Life &life) noexcept {
    return life.status == JobStatus::Failed && life.group_active.has_value();
}

// Returns whether the event can happen to a job in this state. If it cannot, after_event() changes nothing.
bool applies(EventKind kind, const Life &before) noexcept;
// Returns the job after the event, or the unchanged job if the event does not apply.
Life after_event(const Life &before, const Event &event) noexcept;

// Returns the initial life of a job that is being enqueued. `before` must contain max_attempts, has_key, group, and
// expires_at. `waits` means that the job waits for its dependencies.
Life enqueued(const Life &before, Micros run_at, bool waits, Micros now) noexcept;

// Facts about a row that was changed with plain SQL. changed_by_hand() corrects the columns that the statement has
// written, so that they are consistent with each other and with these facts. `place` tells whether the job is the
// active job of its group or waits in the group. `has_left` means that the job no longer waits in a group. `ends_halt`
// means that the job was the failed head of a halted group and has left the group, so that its retention period begins
// now, as after the event PassedOver. `timeout`
// and `max_runtime` are the values of the job or, if the job has none, the values of its kind or queue; 0 means
// unlimited. `keeps_end` means that the job may run until `end`, which was computed by its claim, even if this
// max_runtime has changed since.
struct ByHand {
    GroupPlace place;
    bool has_left;
    Micros timeout, max_runtime;
    bool ends_halt = false;
    bool keeps_end = false;
    OptInt64 end = {};
};
Life changed_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept;
// Corrects the life of an inserted row in the same way as changed_by_hand(). If a running job comes from a dump, keeps
// the time until which it may run, because the restore might not have set the queue's max_runtime yet.
Life inserted_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept;

// Clears the slots that the job holds.
void forget_slots(Life *life) noexcept;

// Returns the time at which the rescue must check a running job. This is the time at which its lease or its max_runtime
// expires, or INT64_MIN (immediately) if its last heartbeat is unknown or its lease never expires.
Micros deadline_of(const Life &life) noexcept;

}  // namespace jobq::core
