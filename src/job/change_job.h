// The only module that changes a job. core/life.h decides what an event does to the job, this module writes the
// result into the row, and the difference between the old and the new row determines which notifications follow. No
// other file writes the columns of a job's life (the lint checks this) or calls the functions that publish and count a
// change.
//
// The rows come from row/jobs_table.h: the job is the one in table.row.
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
};

// Returns the state of the job in table.row.
JobState state_of(const JobsTable &jobs);
// Returns the state of the job in any row of table jobq.jobs.
JobState state_of_row(TupleTableSlot *row);
JobState state_of_tuple(HeapTuple row, TupleDesc desc);

// Returns whether the job in table.row runs under this lease. No lease means a job that runs without one, for example
// because an UPDATE set its status to processing manually.
bool runs_under(const JobsTable &jobs, const core::OptInt64 &lease);

// Columns that are written together with the life: worker, error, result, and so on.
struct OtherColumns {
    struct {
        AttrNumber column;
        Datum value;
        bool none;
    } items[20];
    int count;

    OtherColumns &set(JobAttribute column, Datum value) { return set_if(true, column, value); }
    // Sets the column to NULL unless `present`.
    OtherColumns &set_if(bool present, JobAttribute column, Datum value) {
        Assert(count < static_cast<int>(lengthof(items)));
        if (column.exists()) items[count++] = {column.number, value, !present};
        return *this;
    }
    OtherColumns &clear(JobAttribute column) { return set_if(false, column, Datum(0)); }
};

// Functions that are called while the row is written. The first is called when a job becomes claimable in this lane at
// this key (`is_new`: no worker can have claimed it before), the second when a lease has ended. All other modules read
// the log of the transaction instead.
struct ChangeCallbacks {
    void (*ready)(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new);
    void (*lease_ended)(int64 job, int64 lease);
};
// Sets the callbacks. Called once, when the library is loaded.
void set_change_callbacks(const ChangeCallbacks *all);

// Changes the job in table.row from `before` to `after`, and logs the change for the commit. Waits for transactions
// that hold the row. Returns false if the row is no longer the newest version (READ COMMITTED), so the caller must look
// again under a new snapshot; raises 40001 in REPEATABLE READ and above. Sets *left, unless it is nullptr, to the life
// that the table now holds, because a BEFORE trigger may have changed it. LockWaitSkip: see update_row().
bool write_life(JobsTable *jobs, const JobState &before, const core::Life &after, const OtherColumns &others = {},
                core::Life *left = nullptr, LockWaitPolicy wait = LockWaitBlock);

// Does the same for a row that this transaction has locked, and raises an error if the row has changed all the same.
void write_locked_life(JobsTable *jobs, const JobState &before, const core::Life &after,
                       const OtherColumns &others = {});

// Applies an event to the job in table.row, which this transaction has locked. Does nothing if the event does not apply
// to the job. Returns false if the caller must look again: see write_life().
bool try_change(JobsTable *jobs, const core::Event &event, const OtherColumns &others = {});
// Does the same for a job that cannot have changed since it was locked.
void change_locked_job(JobsTable *jobs, const core::Event &event, const OtherColumns &others = {});

// For each of the jobs, which a statement of this transaction has locked, reads the job into the table's row and calls
// change(jobs, i). If change() returns false because a user's trigger has changed the row in the meantime, does both
// again, but calls change() at most kMaxLooks times in all.
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

// Applies an event to each of the locked jobs to which it applies.
void apply_event(const Datum *ids, int count, const core::Event &event);

// Write a life into a row: fill_life() into a new, empty row that will be inserted, with_life() into a copy of a row
// that a BEFORE trigger received. with_first_life() sets the columns that every job has and the producer has left out.
void fill_life(TupleTableSlot *row, const core::Life &life);
HeapTuple with_life(HeapTuple row, TupleDesc desc, const core::Life &life);
HeapTuple with_first_life(HeapTuple row, TupleDesc desc, int max_attempts, TimestampTz now);

// Log what changed, for the commit: a job that was `before` and is now `after`, a new job, or a deleted job.
// hint_at_change() changes no counters.
void hint_at_change(const JobState &before, const JobState &after);
void log_change(const JobState &before, const JobState &after);
void log_new_job(const JobState &job, bool unclaimed);
void log_deleted_job(const JobState &job);
// Updates only the counters and totals for a deleted job.
void count_deleted_job(std::string_view queue, std::string_view kind, core::JobStatus status);

}  // namespace jobq
