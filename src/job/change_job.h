// The one door to a job: whatever happens to it is decided in job/life_policy.h, written here into its row, and what
// others must be told follows from the row before and the row after. No other file writes the columns of a job's life
// (the lint holds it), or calls what publishes and counts a change.
//
// The rows are those of job/jobs_table.h: the job is the one in table.row.
#pragma once

#include "compat/pg.h"
#include "job/jobs_table.h"
#include "job/life_policy.h"

#include <string_view>

namespace jobq {

// A job as others know it. The texts are the row's.
struct JobState {
    int64 id;
    std::string_view queue, kind;
    std::string_view concurrency_key;  // empty: none
    int64 lane;
    int16 priority;
    core::Life life;
};

// The job in table.row.
JobState state_of(const JobsTable &jobs);
// The job in any row of table jobq.jobs.
JobState state_of_row(TupleTableSlot *row);
JobState state_of_tuple(HeapTuple row, TupleDesc desc);

// Whether the job in table.row runs under this lease; none: under none, as one does that was set to processing by hand.
bool runs_under(const JobsTable &jobs, const core::Maybe &lease);

// Columns that are written along with the life: worker, error, result and so on.
struct OtherColumns {
    struct {
        JobColumn column;
        Datum value;
        bool none;
    } items[20];
    int count;

    OtherColumns &set(JobColumn column, Datum value) { return set_if(true, column, value); }
    // NULL unless `present`.
    OtherColumns &set_if(bool present, JobColumn column, Datum value) {
        Assert(count < static_cast<int>(lengthof(items)));
        items[count++] = {column, value, !present};
        return *this;
    }
    OtherColumns &clear(JobColumn column) { return set_if(false, column, Datum(0)); }
};

// Who is told of what becomes of a job while its row is written, each once: a job becomes claimable, in this lane at
// this key (`is_new`: nobody can have claimed it before); a lease has ended. Everybody else reads the log of the
// transaction.
struct DoorReaders {
    void (*ready)(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new);
    void (*lease_ended)(int64 job, int64 lease);
};
// Once, when the library is loaded.
void tell_of_changes(const DoorReaders *all);

// Makes the job in table.row, `before`, the one that it is `after`, and tells of it at the commit. Waits for whoever
// holds the row. False when the row is not the newest version any more (READ COMMITTED): look again under a new
// snapshot; 40001 in REPEATABLE READ and above. *left, unless nullptr, is the job then as the table holds it: a BEFORE
// trigger may have made another of it. LockWaitSkip: see update_row().
bool write_life(JobsTable *jobs, const JobState &before, const core::Life &after, const OtherColumns &others = {},
                core::Life *left = nullptr, LockWaitPolicy wait = LockWaitBlock);

// The same of a row that this transaction has locked.
void write_locked_life(JobsTable *jobs, const JobState &before, const core::Life &after,
                       const OtherColumns &others = {});

// Lets an event happen to the job in table.row, which this transaction has locked; nothing where it does not apply.
// False: look again, as write_life says.
bool try_change(JobsTable *jobs, const core::Event &event, const OtherColumns &others = {});
// The same where nobody can have changed it since.
void change_locked_job(JobsTable *jobs, const core::Event &event, const OtherColumns &others = {});

// Calls change(jobs, i) for each of some jobs that a statement of this transaction has locked, in the table's row. When
// it answers false, somebody's trigger has changed the row meanwhile: it is called again, but not for ever.
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

// Lets an event happen to jobs that are locked, where it applies.
void let_happen(const Datum *ids, int count, const core::Event &event);

// A new row that is to be inserted, empty so far, gets its life. The same of a row that a BEFORE trigger was given, the
// second after what the producer has left out and every job has.
void fill_life(TupleTableSlot *row, const core::Life &life);
HeapTuple with_life(HeapTuple row, TupleDesc desc, const core::Life &life);
HeapTuple with_first_life(HeapTuple row, TupleDesc desc, int max_attempts, TimestampTz now);

// What others are told of a change at the commit: of a job that was `before` and is `after`; of one that is new, or
// gone. A hint counts nothing.
void hint_at_change(const JobState &before, const JobState &after);
void tell_of_change(const JobState &before, const JobState &after);
void tell_of_new_job(const JobState &job, bool unclaimed);
void tell_of_gone_job(const JobState &job);
// Only that a job was deleted, as the counters and totals want to know.
void tell_of_deletion(std::string_view queue, std::string_view kind, core::JobStatus status);

}  // namespace jobq
