// The columns of jobq.jobs, in the order in which src/sql/20_tables.sql declares them. This list defines the numbers of
// the columns, their names in messages, the properties that are checked (table/own_columns.h), and the columns to which
// a role that does not own the table may assign values in a plain INSERT.
//
// The columns of the first release have the same numbers in every database, so their numbers are constants. A column
// that a later release has added comes after all columns that a DBA added before the upgrade, and does not exist until
// the extension is upgraded. Therefore, its number is looked up by name each time the definition of the table has
// changed (row/jobs_catalog.cpp).
#pragma once

#include "compat/pg.h"
#include "table/own_columns.h"

namespace jobq {

// The arguments of COLUMN: the name in C++; the name in SQL; the type, or InvalidOid for a type that jobq creates;
// whether the column is NOT NULL; what happens if a user adds a default (OwnDefault); and whether the producer or jobq
// provides the value in an INSERT (FilledBy).
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
    COLUMN(Steps, "_steps", INT8OID, false, Refused, Jobq)                                 \
    COLUMN(ExpiresAt, "expires_at", TIMESTAMPTZOID, false, Refused, Producer)              \
    COLUMN(BatchId, "batch_id", INT8OID, false, Refused, Producer)                         \
    COLUMN(KindSlot, "_kind_slot", INT8OID, false, Refused, Jobq)                          \
    COLUMN(LimitSlot1, "_limit_slot1", INT8OID, false, Refused, Jobq)                      \
    COLUMN(LimitSlot2, "_limit_slot2", INT8OID, false, Refused, Jobq)                      \
    COLUMN(Limits, "limits", TEXTARRAYOID, false, Refused, Producer)
// The columns that releases after the first one have added. All of them may be NULL.
#define JOBQ_LATER_JOB_COLUMNS(COLUMN)
// clang-format on

enum JobColumn : AttrNumber {
    kBeforeFirstJobColumn = 0,
#define JOBQ_NUMBER(name, column, type, not_null, with_default, filled_by) kJob##name,
    JOBQ_JOB_COLUMNS(JOBQ_NUMBER)
#undef JOBQ_NUMBER
        kAfterLastJobColumn
};
constexpr int kJobColumns = kAfterLastJobColumn - 1;

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

// Numbers of the columns that releases after the first one have added, or InvalidAttrNumber for a column that the table
// does not have.
extern AttrNumber later_job_columns[kLaterJobColumns + 1];

// A column from either list (JOBQ_JOB_COLUMNS or JOBQ_LATER_JOB_COLUMNS). If the table does not have the column, its
// value counts as NULL, and jobq does not write it.
struct JobAttribute {
    AttrNumber number;

    constexpr JobAttribute(JobColumn column) : number(column) {}
    JobAttribute(LaterJobColumn column) : number(later_job_columns[static_cast<int>(column)]) {}
    constexpr bool exists() const { return number != InvalidAttrNumber; }
};

constexpr int kAllJobColumns = kJobColumns + kLaterJobColumns;
// Returns the column with index i, counted from 0, in JOBQ_JOB_COLUMNS followed by JOBQ_LATER_JOB_COLUMNS.
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

// Whether the producer or only jobq is allowed to provide a column's value in an INSERT.
enum class FilledBy : uint8 { Producer, Jobq };
constexpr FilledBy kFilledBy[kAllJobColumns] = {
#define JOBQ_FILLED(name, column, type, not_null, with_default, filled_by) FilledBy::filled_by,
    JOBQ_JOB_COLUMNS(JOBQ_FILLED) JOBQ_LATER_JOB_COLUMNS(JOBQ_FILLED)
#undef JOBQ_FILLED
};

}  // namespace jobq
