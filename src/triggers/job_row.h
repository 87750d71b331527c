// A row of jobq.jobs as the triggers of that table see it, and functions that read, check, and publish it. Only
// job_inserted.cpp and job_changed.cpp use it.
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

// Raises 39P01 unless the function was called by a row trigger on jobq.jobs for this event and with this timing. Raises
// 55000 if jobq's columns are not as the library expects.
const TriggerData *job_trigger(FunctionCallInfo fcinfo, TriggerEvent event, bool before);

// A row of jobq.jobs. set() allocates in the memory context that was current when the object was created, because code
// inside an SPI connection runs in a memory context that is freed when the connection ends.
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
    // Returns the state of the row in the form that job/change_job.h uses.
    JobState state() const { return state_of_tuple(tuple_, desc_); }
    void set_life(const core::Life &life) {
        MemoryContext inner = MemoryContextSwitchTo(context_);
        tuple_ = with_life(tuple_, desc_, life);
        MemoryContextSwitchTo(inner);
    }
    void fill_life(int max_attempts, core::Micros expires_in, TimestampTz now) {
        MemoryContext inner = MemoryContextSwitchTo(context_);
        tuple_ = with_first_life(tuple_, desc_, max_attempts, expires_in, now);
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

// Checks the values that a producer is allowed to set. Constraints could also check these values, but would cost more.
void check_row(const JobRow &row);
// Checks the values of columns that jobq sets after the insert. Used if plain SQL has changed the row.
void check_history(const JobRow &row);

// Raises 22003 if the id is below 1.
void check_id(const JobRow &row);

// Raises 23505 if plain SQL gives the job a unique key that a finished job still keeps. `queue` is the column that
// contains the name of the queue in which the key must be free.
void check_kept_key(const JobRow &row, JobColumn queue);

// Raises 55000 for a change with plain SQL that makes a job run even though it is not the head of its group.
[[noreturn]] void refuse_not_group_head();

// Returns the row's lane and adds it to the lane directory if it is missing.
int64 lane_of(const JobRow &row);

// Returns the facts that determine the consequences of a change with plain SQL: the job's place in its group, and how
// long it is allowed to run.
core::ByHand facts_by_hand(const JobRow &row, const Queue &queue, core::GroupPlace place, bool has_left);

// If the job is the head of its group, logs this, so that sessions that promote jobs discard their cached information
// about the heads of groups.
void log_group_head(const core::Life &life);

}  // namespace jobq
