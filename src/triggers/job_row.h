// A row of jobq.jobs as its triggers see it: what they read from it, check in it and tell of it.
// Who may call it: the triggers of that table (job_inserted.cpp, job_changed.cpp).
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "job/change_job.h"
#include "limits/limit_settings.h"
#include "queues/directory.h"
#include "row/job_columns.h"
#include "triggers/trigger.h"

#include <string_view>

namespace jobq {

// 39P01 unless the trigger is the one that the extension declares: a row trigger of jobq.jobs for this event. 55000
// when jobq's columns are not as the library knows them.
const TriggerData *job_trigger(FunctionCallInfo fcinfo, TriggerEvent event, bool before);

// The columns of a row of jobq.jobs. What set() makes lives in the memory context that was current when the row was
// taken: every SPI call on the way switches to one that dies with it.
class JobRow {
 public:
    JobRow(HeapTuple tuple, TupleDesc desc) : tuple_(tuple), desc_(desc), context_(CurrentMemoryContext) {}

    Datum get(JobAttribute column, bool *is_null) const {
        *is_null = true;
        return column.exists() ? SPI_getbinval(tuple_, desc_, column.number, is_null) : Datum(0);
    }
    bool has(JobAttribute column) const { return column.exists() && !heap_attisnull(tuple_, column.number, desc_); }
    Datum get(JobAttribute column) const {
        bool null;
        return get(column, &null);
    }
    void set(JobAttribute column, Datum value) { set_or_clear(column, true, value); }
    void set_or_clear(JobAttribute column, bool present, Datum value) {
        if (!column.exists()) return;
        int at = column.number;
        bool null = !present;
        MemoryContext inner = MemoryContextSwitchTo(context_);
        tuple_ = heap_modify_tuple_by_cols(tuple_, desc_, 1, &at, &value, &null);
        MemoryContextSwitchTo(inner);
    }
    void clear(JobAttribute column) { set_or_clear(column, false, Datum(0)); }
    void default_to(JobAttribute column, Datum value) {
        if (!has(column)) set(column, value);
    }
    HeapTuple tuple() const { return tuple_; }
    // What the door makes of it.
    JobState state() const { return state_of_tuple(tuple_, desc_); }
    void set_life(const core::Life &life) {
        MemoryContext inner = MemoryContextSwitchTo(context_);
        tuple_ = with_life(tuple_, desc_, life);
        MemoryContextSwitchTo(inner);
    }
    void fill_life(int max_attempts, TimestampTz now) {
        MemoryContext inner = MemoryContextSwitchTo(context_);
        tuple_ = with_first_life(tuple_, desc_, max_attempts, now);
        MemoryContextSwitchTo(inner);
    }

 private:
    HeapTuple tuple_;
    TupleDesc desc_;
    MemoryContext context_;
};

std::string_view text_of(const JobRow &row, JobColumn column);
core::JobStatus status_of(const JobRow &row);
int64 group_of(const JobRow &row);
SlotRow slots_of(const JobRow &row);

// What constraints would check, if they were free.
void check_row(const JobRow &row);
// The same of what jobq itself writes in the course of a job's life.
void check_history(const JobRow &row);

// 22003 for an id that no job is given: below 1.
void check_id(const JobRow &row);

// 23505 when a key that outlives its job is the one that a job takes by hand, in the queue that `queue` names.
void check_kept_key(const JobRow &row, JobColumn queue);

// 55000: a job that is not the head of its group is made to run.
[[noreturn]] void refuse_not_group_head();

// The row's lane, entered into the directory.
int64 lane_of(const JobRow &row);

// What follows from a change by hand is worked out from these: the place that the job gets in its group, and how long
// it may run.
core::ByHand facts_by_hand(const JobRow &row, const Queue &queue, core::GroupPlace place, bool has_left);

// Of a row that came as the head of its group: what promoters remember of heads is void.
void log_group_head(const core::Life &life);

}  // namespace jobq
