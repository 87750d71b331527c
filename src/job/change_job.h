// The only module that changes jobs. core/life.h determines what an event does to a job, this module writes the result
// into the row, and the difference between the old and the new row determines which notifications the commit sends. The
// life of a job is the set of columns that events change, such as status and lease. No other file writes these columns
// (the linter checks this) or calls the functions that publish and count a change.
//
// The functions work on the job in table.row of a JobsTable (row/jobs_table.h).
#pragma once

#include "compat/pg.h"
#include "core/life.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// A job as other modules see it. The strings point into the row.
struct JobState {
    int64 id;
    std::string_view queue, kind;
    std::string_view concurrency_key;  // empty: the job has no concurrency key
    int64 lane;
    int16 priority;
    core::Life life;
    int64 batch;  // the batch that the job has joined; 0: none
};

// Returns the state of the job in table.row.
JobState state_of(const JobsTable &jobs);
// These functions return the state of the job in the given row of jobq.jobs.
JobState state_of_row(TupleTableSlot *row);
JobState state_of_tuple(HeapTuple row, TupleDesc desc);

// Returns whether the job in table.row runs under this lease. If `lease` has no value, returns whether the job runs
// without a lease, for example, because a plain SQL UPDATE set its status to processing.
bool runs_under(const JobsTable &jobs, const core::OptInt64 &lease);

// Columns of a row and their new values.
template <int room>
struct ColumnValues {
    int count;
    AttrNumber columns[room];
    Datum values[room];
    bool nulls[room];

    ColumnValues &set(JobAttribute column, Datum value) { return set_if(true, column, value); }
    // Sets the column to `value` if `present` is true, and to NULL if not.
    ColumnValues &set_if(bool present, JobAttribute column, Datum value) {
        if (column.exists()) add(column.number, value, !present);
        return *this;
    }
    ColumnValues &clear(JobAttribute column) { return set_if(false, column, Datum(0)); }
    void add(AttrNumber column, Datum value, bool none) {
        Assert(count < room);
        columns[count] = column;
        values[count] = value;
        nulls[count++] = none;
    }
};

// Other columns that are written together with the life of a job, such as worker_id, error, and result.
using OtherColumns = ColumnValues<20>;

// Functions that are called while a row is written. ready() is called when a job becomes claimable. `key` is the job's
// claim key in the lane, and `is_new` means that no worker can have claimed the job before. lease_ended() is called
// when a lease has ended. named_slot_freed() is called when a job has freed a slot of a named limit, because only the
// directory of queues knows which queues share the limit. Other modules read the log of the transaction instead.
struct ChangeCallbacks {
    void (*ready)(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new);
    void (*lease_ended)(int64 job, int64 lease);
    void (*named_slot_freed)(std::string_view queue, int64 slot);
};
// Sets the callbacks. Called once, when the library is loaded.
void set_change_callbacks(const ChangeCallbacks *all);

// Changes the job in table.row from `before` to `after` and logs the change for the commit. Waits for transactions that
// have locked the row. If the row is no longer the newest version, returns false in READ COMMITTED, so that the caller
// must read the job again under a new snapshot, and raises 40001 in REPEATABLE READ and above. Sets *left, unless it is
// nullptr, to the life that is now in the table, because a BEFORE trigger might have changed it. For LockWaitSkip, see
// update_row().
bool write_life(JobsTable *jobs, const JobState &before, const core::Life &after, const OtherColumns &others = {},
                core::Life *left = nullptr, LockWaitPolicy wait = LockWaitBlock);

// Changes the job as write_life() does, for a row that this transaction has locked. Raises an error if the row has
// changed nevertheless, for example because a trigger has changed it.
void write_locked_life(JobsTable *jobs, const JobState &before, const core::Life &after,
                       const OtherColumns &others = {});

// Applies an event to the job in table.row, which this transaction has locked. Does nothing if the event does not apply
// to the job. Returns false if the caller must read the job again: see write_life().
bool try_change(JobsTable *jobs, const core::Event &event, const OtherColumns &others = {});
// Applies an event in the same way as try_change(), but to a job that cannot have changed since it was locked. Raises
// an error if the job has changed after all.
void change_locked_job(JobsTable *jobs, const core::Event &event, const OtherColumns &others = {});

// Reads each job into table.row and calls change(jobs, i). A statement of this transaction must have locked the jobs.
// If change() returns false because a user's trigger has changed the row in the meantime, reads the job and calls
// change() again, but raises an error if the last of kMaxLooks calls returns false.
constexpr int kMaxLooks = 3;
template <typename IdOf, typename Change>
void change_locked_jobs(int count, IdOf id_of, Change change) {
    JobsTable jobs;
    if (count == 0) return;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        for (int looks = 1; find_job(&jobs, id_of(i)) && !change(&jobs, i); looks++) {
            if (looks == kMaxLooks) row_was_changed_twice();
            renew_snapshot(&jobs);
        }
    }
    close_jobs(&jobs);
}

// Applies an event to the jobs with these ids, which this transaction has locked. Skips jobs to which the event does
// not apply.
void apply_event(const Datum *ids, int count, const core::Event &event);

// These functions write a life into a row. fill_life() writes it into a new, empty row that will be inserted.
// with_life() writes it into a copy of a row that a BEFORE trigger received, and returns the copy. with_first_life()
// returns a copy of such a row in which it has set the columns that every job needs and that the producer has not set.
// `expires_in` counts from run_at; 0: the job does not expire.
void fill_life(TupleTableSlot *row, const core::Life &life);
HeapTuple with_life(HeapTuple row, TupleDesc desc, const core::Life &life);
HeapTuple with_first_life(HeapTuple row, TupleDesc desc, int max_attempts, core::Micros expires_in, TimestampTz now);

// These functions add a change to the log of the transaction, which the commit reads. They report that a job has
// changed from `before` to `after`, is new, or was deleted. hint_at_change() logs the same information as log_change(),
// except for the changes to the counters and the fact that the head of a group has ended.
void hint_at_change(const JobState &before, const JobState &after);
void log_change(const JobState &before, const JobState &after);
void log_new_job(const JobState &job, bool unclaimed);
void log_deleted_job(const JobState &job);
// For a deleted job, updates only the counters and totals.
void count_deleted_job(std::string_view queue, std::string_view kind, core::JobStatus status);

}  // namespace jobq
