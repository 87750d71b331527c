// The life of a job: what becomes of it in each status by each event, and what of its row follows from that. The one
// place that knows. Pure; the door lets events happen to rows (job/change_job.h), docs/design.md has the table.
//
// Texts and JSON never come here: of a key it is said whether the job holds it, of a result or an error whether the row
// keeps one.
#pragma once

#include "groups/group_policy.h"
#include "job/job_policy.h"
#include "job/max_runtime_policy.h"

#include <optional>
#include <type_traits>

namespace jobq::core {

// A time, a span in microseconds, a lease, a slot or the number of a group; or none.
using Maybe = std::optional<std::int64_t>;

// The columns of jobq.jobs that a job's life writes: (name of the column in job/job_columns.h, member, how the column
// holds it).
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
using LifeNumber = Maybe;
using LifeSpan = Maybe;
using LifeFlag = bool;
using LifeKept = bool;  // what is there stays, or goes

enum class EventKind : std::uint8_t;
// The event that has made a job what it is, and when.
struct Cause {
    EventKind kind;
    Micros at;
};

struct Life {
#define JOBQ_MEMBER(name, member, type) Life##type member;
    JOBQ_LIFE_COLUMNS(JOBQ_MEMBER)
#undef JOBQ_MEMBER
    // Of columns that no event writes.
    bool has_key;  // it wants to hold one
    Maybe group;   // the number of its group
    // In no column: what after_event() has returned knows it until it is written. None: by hand, or read from a row.
    std::optional<Cause> cause;
};
static_assert(std::is_trivially_copyable_v<Life>, "may live where a longjmp skips destructors");

// Which columns differ: a bit for each, in the order above.
enum LifeColumn : unsigned {
#define JOBQ_BIT(name, member, type) kLife##name,
    JOBQ_LIFE_COLUMNS(JOBQ_BIT)
#undef JOBQ_BIT
        kLifeColumns
};
std::uint32_t differing(const Life &a, const Life &b) noexcept;

enum class EventKind : std::uint8_t {
    Claimed,
    RescueIndexed,  // it runs, and the rescue's index shall have it from now on
    SlotsGiven,     // to a job that runs without: its limit is new
    InCompany,      // its worker has lost other jobs: should it be lost, too, the blame is not its own
    Heartbeat,
    Completed,
    Failed,        // its worker said so
    Released,      // its worker gives it back; the attempt does not count
    StepSaved,     // its worker has saved a step
    Waited,        // the same, and gives it back until a time, or until what it awaits has come; nor does this count
    Lost,          // its worker is silent
    Overran,       // it ran longer than max_runtime
    CancelForced,  // its worker was asked to stop and did not
    Cancelled,     // by an operator; a worker is asked first
    Dropped,       // by jobq: a dependency has failed, or its queue was full
    Due,
    Blocked,           // it waits for a dependency again
    LeftLine,          // the same of one in the line of its group: that comes after the dependencies
    DependenciesDone,  // of a blocked job
    BecameGroupHead,   // of the job of its group that is next
    WaitOver,          // what it awaits may have come: its worker looks
    Rescheduled,
    Retried,      // now, with one attempt more at least
    StartedOver,  // with all its attempts, at a time
    Replaced,     // by the enqueue of the same key
    KeyTaken,     // the same, of a job that runs
    Moved,        // to another queue
};
constexpr int kEventKinds = static_cast<int>(EventKind::Moved) + 1;

// An event; what is not named by its function stays as it is here.
struct Event {
    EventKind kind;
    Micros now;
    Micros run_at = 0;         // Rescheduled, StartedOver, Replaced; Waited, of one that sleeps
    Micros delay = 0;          // Failed, Overran: until the next attempt; Released: 0, in its old place
    bool wants_retry = false;  // Failed
    bool in_company = false;   // Lost
    int max_lost = 0;          // Lost
    int max_attempts = 0;      // Replaced
    OnMaxRuntime on_max_runtime = OnMaxRuntime::Fail;     // Overran
    bool waits = false;                                   // Retried, StartedOver: for its dependencies again
    bool sleeps = false;                                  // Waited: for a time only, run_at
    Maybe deadline = {};                                  // Waited: when it stops to wait; none: never
    Maybe last_step = {};                                 // StepSaved, Waited; Retried: of those that stay
    bool rescue_indexed = false;                          // Claimed: the rescue's index has it at once
    std::int64_t lease = 0;                               // Claimed
    Micros timeout = 0;                                   // Claimed
    Micros max_runtime = 0;                               // Claimed; 0: none
    Maybe queue_slot = {}, key_slot = {}, slot_seq = {};  // Claimed, SlotsGiven
    Maybe group = {};                                     // Moved: the number of its group there
};

// The deadline of a job that waits without one: infinity, as a timestamp has it.
constexpr Micros kForever = INT64_MAX;
// Whether a job is blocked since its worker awaits something: then must_end_at says until when.
inline bool awaits(const Life &life) noexcept {
    return life.status == JobStatus::Blocked && life.must_end_at && !life.lease && !life.rescue_indexed &&
           !life.group_waiting;
}

// Whether the event can happen to such a job. Nothing happens where it cannot.
bool applies(EventKind kind, const Life &before) noexcept;
// The job after it; as it was where the event does not apply.
Life after_event(const Life &before, const Event &event) noexcept;

// A job that is enqueued: `before` has max_attempts, has_key and group. `waits`: for its dependencies.
Life enqueued(const Life &before, Micros run_at, bool waits, Micros now) noexcept;

// A job that somebody has changed by hand: what follows from what was written. `place`: in its group; `has_left`: it
// waits in no group any more; `timeout` and `max_runtime`: the job's own, else the queue's; 0: none. `keeps_end`: it
// goes on running as before, with the end that its claim has given it, whatever the queue's max_runtime is by now.
struct ByHand {
    GroupPlace place;
    bool has_left;
    Micros timeout, max_runtime;
    bool keeps_end = false;
    Maybe end = {};
};
Life changed_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept;
// The same of a job that somebody has inserted. A dump brings its own max_runtime: the queue's may come later.
Life inserted_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept;

// When the first of the clocks of a job that runs is over, or somebody has to look for another reason.
Micros deadline_of(const Life &life) noexcept;

}  // namespace jobq::core
