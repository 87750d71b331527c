// The columns of jobq.jobs: what the library knows of them, in the order in which src/sql/20_tables.sql declares them.
// From here come their numbers, their names in messages, what is checked of the table (table/attached.h) and which of
// them a plain INSERT by a role that does not own the table may fill in.
//
// The columns of the first release have the same numbers in every table, so their numbers are constants. A column of a
// later release comes after any columns that a DBA has added by then, and an older table does not have it, so its
// number is looked up by name each time the table has changed (row/jobs_table.cpp).
#pragma once

#include "compat/pg.h"
#include "table/attached.h"

namespace jobq {

// COLUMN(name in C++, name, type (InvalidOid: one of our own), NOT NULL, what becomes of a default that somebody gives
// it, who says what is in it at an insert)
// clang-format off
#define JOBQ_JOB_COLUMNS(COLUMN) \
    COLUMN(Id, "id", INT8OID, true, Unused, Jobq)                                          \
    COLUMN(CreatedAt, "created_at", TIMESTAMPTZOID, true, Unused, Jobq)                    \
    COLUMN(RunAt, "run_at", TIMESTAMPTZOID, true, Unused, Producer)                        \
    COLUMN(Lane, "_lane", INT8OID, true, Unused, Jobq)                                     \
    COLUMN(Version, "version", INT4OID, true, Unused, Producer)                            \
    COLUMN(MaxAttempts, "max_attempts", INT4OID, true, Unused, Producer)                   \
    COLUMN(Priority, "priority", INT2OID, true, Unused, Producer)                          \
    COLUMN(Queue, "queue", TEXTOID, true, Unused, Producer)                                \
    COLUMN(Kind, "kind", TEXTOID, true, Unused, Producer)                                  \
    COLUMN(Payload, "payload", JSONBOID, true, Unused, Producer)                           \
    COLUMN(Metadata, "metadata", JSONBOID, false, Honoured, Producer)                      \
    COLUMN(Requires, "requires", TEXTARRAYOID, false, Refused, Producer)                   \
    COLUMN(HeartbeatTimeout, "heartbeat_timeout", INTERVALOID, false, Honoured, Producer)  \
    COLUMN(MaxRuntime, "max_runtime", INTERVALOID, false, Honoured, Producer)              \
    COLUMN(UniqueKey, "unique_key", TEXTOID, false, Refused, Producer)                     \
    COLUMN(UniqueFor, "unique_for", INTERVALOID, false, Refused, Producer)                 \
    COLUMN(GroupKey, "group_key", TEXTOID, false, Refused, Producer)                       \
    COLUMN(ConcurrencyKey, "concurrency_key", TEXTOID, false, Refused, Producer)           \
    COLUMN(RoundRobinKey, "_round_robin_key", INT8OID, false, Refused, Jobq)               \
    COLUMN(HoldsKey, "_holds_key", BOOLOID, false, Refused, Jobq)                          \
    COLUMN(Ready, "_ready", BOOLOID, false, Refused, Jobq)                                 \
    COLUMN(Due, "_due", BOOLOID, false, Refused, Jobq)                                     \
    COLUMN(RescueIndexed, "_rescue_indexed", BOOLOID, false, Refused, Jobq)                \
    COLUMN(Status, "status", InvalidOid, true, Unused, Producer)                           \
    COLUMN(Attempts, "attempts", INT4OID, true, Unused, Jobq)                              \
    COLUMN(LostAttempts, "lost_attempts", INT4OID, true, Unused, Jobq)                     \
    COLUMN(StartedAt, "started_at", TIMESTAMPTZOID, false, Refused, Jobq)                  \
    COLUMN(LastHeartbeat, "last_heartbeat", TIMESTAMPTZOID, false, Refused, Jobq)          \
    COLUMN(FinishedAt, "finished_at", TIMESTAMPTZOID, false, Refused, Jobq)                \
    COLUMN(CancelRequestedAt, "cancel_requested_at", TIMESTAMPTZOID, false, Refused, Jobq) \
    COLUMN(WorkerId, "worker_id", TEXTOID, false, Honoured, Jobq)                          \
    COLUMN(Error, "error", TEXTOID, false, Honoured, Jobq)                                 \
    COLUMN(Progress, "progress", JSONBOID, false, Honoured, Jobq)                          \
    COLUMN(Result, "result", JSONBOID, false, Honoured, Jobq)                              \
    COLUMN(DeadFrom, "dead_from", TEXTOID, false, Refused, Jobq)                           \
    COLUMN(Lease, "lease", INT8OID, false, Refused, Jobq)                                  \
    COLUMN(CompletedLease, "_completed_lease", INT8OID, false, Refused, Jobq)              \
    COLUMN(CompanyLease, "_company_lease", INT8OID, false, Refused, Jobq)                  \
    COLUMN(ClaimXid, "_claim_xid", XID8OID, false, Refused, Jobq)                          \
    COLUMN(LeaseTimeout, "_lease_timeout", INTERVALOID, false, Refused, Jobq)              \
    COLUMN(MustEndAt, "_must_end_at", TIMESTAMPTZOID, false, Refused, Jobq)                \
    COLUMN(QueueSlot, "_queue_slot", INT8OID, false, Refused, Jobq)                        \
    COLUMN(KeySlot, "_key_slot", INT8OID, false, Refused, Jobq)                            \
    COLUMN(SlotSeq, "_slot_seq", INT8OID, false, Refused, Jobq)                            \
    COLUMN(GroupWaiting, "_group_waiting", INT8OID, false, Refused, Jobq)                  \
    COLUMN(GroupActive, "_group_active", INT8OID, false, Refused, Jobq)                    \
    COLUMN(Steps, "_steps", INT8OID, false, Refused, Jobq)
// The columns of later releases. They are never NOT NULL.
#define JOBQ_LATER_JOB_COLUMNS(COLUMN)
// clang-format on

enum JobColumn : AttrNumber {
    kBeforeFirstJobColumn = 0,
#define JOBQ_NUMBER(name, column, type, not_null, with_default, filled_by) kJob##name,
    JOBQ_JOB_COLUMNS(JOBQ_NUMBER)
#undef JOBQ_NUMBER
        kBehindLastJobColumn
};
constexpr int kJobColumns = kBehindLastJobColumn - 1;

enum class LaterJobColumn : uint8 {
#define JOBQ_LATER(name, column, type, not_null, with_default, filled_by) name,
    JOBQ_LATER_JOB_COLUMNS(JOBQ_LATER)
#undef JOBQ_LATER
        Count
};
constexpr int kLaterJobColumns = static_cast<int>(LaterJobColumn::Count);
#define JOBQ_LATER(name, column, type, not_null, with_default, filled_by) \
    constexpr LaterJobColumn kJob##name = LaterJobColumn::name;
JOBQ_LATER_JOB_COLUMNS(JOBQ_LATER)
#undef JOBQ_LATER

// The numbers of the later columns in the table; InvalidAttrNumber: the table does not have the column.
extern AttrNumber later_job_columns[kLaterJobColumns + 1];

// A column of either kind. A column that the table does not have reads as NULL, and is not written.
struct JobAttribute {
    AttrNumber number;

    constexpr JobAttribute(JobColumn column) : number(column) {}
    JobAttribute(LaterJobColumn column) : number(later_job_columns[static_cast<int>(column)]) {}
    constexpr bool exists() const { return number != InvalidAttrNumber; }
};

constexpr int kAllJobColumns = kJobColumns + kLaterJobColumns;
// The columns of both lists, from 0.
inline JobAttribute job_attribute(int i) {
    return i < kJobColumns ? JobAttribute(static_cast<JobColumn>(i + 1))
                           : JobAttribute(static_cast<LaterJobColumn>(i - kJobColumns));
}

constexpr OwnColumn kOwnJobColumns[kAllJobColumns] = {
#define JOBQ_OWN(name, column, type, not_null, with_default, filled_by) \
    {column, type, not_null, OwnDefault::with_default},
    JOBQ_JOB_COLUMNS(JOBQ_OWN) JOBQ_LATER_JOB_COLUMNS(JOBQ_OWN)
#undef JOBQ_OWN
};

constexpr const char *job_column_name(JobColumn column) { return kOwnJobColumns[column - 1].name; }

// Who says at an INSERT what is in a column: the producer, or jobq alone.
enum class FilledBy : uint8 { Producer, Jobq };
constexpr FilledBy kFilledBy[kAllJobColumns] = {
#define JOBQ_FILLED(name, column, type, not_null, with_default, filled_by) FilledBy::filled_by,
    JOBQ_JOB_COLUMNS(JOBQ_FILLED) JOBQ_LATER_JOB_COLUMNS(JOBQ_FILLED)
#undef JOBQ_FILLED
};

}  // namespace jobq
