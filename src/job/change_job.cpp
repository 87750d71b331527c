// See change_job.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "core/retry.h"
#include "job/change_job.h"
#include "log/transaction_log.h"
#include "row/numbers.h"

namespace jobq {

namespace {

const ChangeCallbacks *readers = nullptr;

// ---- Functions that read and write the columns of core::Life: one pair for each column type in core/life.h.

using core::OptInt64;

// A column of a row whose columns have all been read (slot_getallattrs()).
struct Column {
    const TupleTableSlot *row;
    JobAttribute attribute;
    bool none = false;
    Datum value() {
        const int i = attribute.number - 1;
        none = !attribute.exists() || row->tts_isnull[i];
        return none ? Datum(0) : row->tts_values[i];
    }
};

core::JobStatus read_Status(Column column) { return job_status_of(column.value()); }
int read_Count(Column column) { return DatumGetInt32(column.value()); }
core::Micros read_Moment(Column column) { return DatumGetInt64(column.value()); }
pg_attribute_always_inline OptInt64 read_Number(Column column) {
    const Datum value = column.value();
    return column.none ? OptInt64() : OptInt64(DatumGetInt64(value));
}
OptInt64 read_Span(Column column) {
    const Datum value = column.value();
    return column.none ? OptInt64() : OptInt64(span_of(DatumGetIntervalP(value)));
}
pg_attribute_always_inline bool read_Flag(Column column) {
    const Datum value = column.value();
    return !column.none && DatumGetBool(value);
}
bool read_Kept(Column column) {
    column.value();
    return !column.none;
}

using Written = ColumnValues<core::kLifeColumns + lengthof(OtherColumns::columns)>;

// Writes columns into a new row, in which all columns are NULL.
struct NewRow {
    TupleTableSlot *row;
    void set_if(bool is_set, JobAttribute column, Datum value) {
        if (is_set && column.exists()) set_column(row, column.number, value);
    }
};

template <typename To>
void write_Status(To *to, JobAttribute column, core::JobStatus status) {
    to->set_if(true, column, ObjectIdGetDatum(stored_status(status)));
}
template <typename To>
void write_Count(To *to, JobAttribute column, int count) {
    to->set_if(true, column, Int32GetDatum(count));
}
template <typename To>
void write_Moment(To *to, JobAttribute column, core::Micros at) {
    to->set_if(true, column, Int64GetDatum(at));
}
template <typename To>
void write_Number(To *to, JobAttribute column, const OptInt64 &number) {
    to->set_if(number.has_value(), column, Int64GetDatum(number.value_or(0)));
}
template <typename To>
void write_Span(To *to, JobAttribute column, const OptInt64 &span) {
    to->set_if(span.has_value(), column, span ? IntervalPGetDatum(make_interval(*span)) : Datum(0));
}
// Writes true or NULL, never false, because a partial index contains only the rows in which the column is true.
template <typename To>
void write_Flag(To *to, JobAttribute column, bool flag) {
    to->set_if(flag, column, BoolGetDatum(true));
}
// Clears the column unless `kept` is true. To set a new value, a caller passes the value in OtherColumns.
template <typename To>
void write_Kept(To *to, JobAttribute column, bool kept) {
    if (!kept) to->set_if(false, column, Datum(0));
}

// Writes those columns of the job's life (core::Life) that have a bit in the mask (core::differing()).
template <typename To>
void collect(To *to, uint32 mask, const core::Life &life) {
#define JOBQ_WRITE(name, member, type) \
    if ((mask & 1U << core::kLife##name) != 0) write_##type(to, kJob##name, life.member);
    JOBQ_LIFE_COLUMNS(JOBQ_WRITE)
#undef JOBQ_WRITE
}

// Returns all columns of the life.
Written all_columns_of(const core::Life &life) {
    Written written;
    written.count = 0;
    collect(&written, UINT32_MAX, life);
    return written;
}

HeapTuple with_written(HeapTuple row, TupleDesc desc, Written *written) {
    int columns[lengthof(written->columns)];
    for (int i = 0; i < written->count; i++) columns[i] = written->columns[i];
    return heap_modify_tuple_by_cols(row, desc, written->count, columns, written->values, written->nulls);
}

void collect(Written *written, const OtherColumns &others) {
    for (int i = 0; i < others.count; i++) written->add(others.columns[i], others.values[i], others.nulls[i]);
}

OptInt64 group_of(TupleTableSlot *row, const core::Life &life) {
    if (life.group_active) return life.group_active;
    if (life.group_waiting) return life.group_waiting;
    bool none;
    const Datum key = slot_getattr(row, kJobGroupKey, &none);
    if (none) return {};
    const Datum queue = slot_getattr(row, kJobQueue, &none);
    return group_number(view(DatumGetTextPP(queue)), view(DatumGetTextPP(key)));
}

core::Life life_of(TupleTableSlot *row) {
    core::Life life = {};
    slot_getallattrs(row);
#define JOBQ_READ(name, member, type) life.member = read_##type({row, kJob##name});
    JOBQ_LIFE_COLUMNS(JOBQ_READ)
#undef JOBQ_READ
    life.has_key = read_Kept({row, kJobUniqueKey});
    life.group = group_of(row, life);
    return life;
}

// ---- Notifications about a change.

// Returns whether the change might make the job claimable, or might change the lane, claim key, or run_at of a
// claimable job.
bool may_become_claimable(const JobState &before, const JobState &after) {
    const core::Life &was = before.life, &is = after.life;
    return was.ready != is.ready || was.run_at != is.run_at || before.lane != after.lane ||
           before.priority != after.priority || before.id != after.id ||
           before.concurrency_key != after.concurrency_key || was.lost_attempts != is.lost_attempts ||
           was.company_lease != is.company_lease || was.expires_at != is.expires_at;
}

void log_claimable(const JobState &before, const JobState &after) {
    const core::Life &was = before.life, &is = after.life;
    if (was.group_active && was.group_active != is.group_active) publish_group_free(*was.group_active);
    if (is.group_active && was.group_active != is.group_active) leave_next_heads();
    if (is.group_waiting && (was.group_waiting != is.group_waiting || before.id != after.id))
        publish_group_waits(*is.group_waiting, after.id);
}

void log_slots(const JobState &before, const JobState &after) {
    const core::Life &was = before.life, &is = after.life;
    if (was.queue_slot && was.queue_slot != is.queue_slot) slot_freed_at_commit(before.queue, {}, *was.queue_slot);
    if (was.key_slot && was.key_slot != is.key_slot && !before.concurrency_key.empty())
        slot_freed_at_commit(before.queue, before.concurrency_key, *was.key_slot);
    if (was.kind_slot && was.kind_slot != is.kind_slot) slot_freed_at_commit(before.queue, {}, *was.kind_slot);
    if (was.limit_slot1 && was.limit_slot1 != is.limit_slot1) readers->named_slot_freed(before.queue, *was.limit_slot1);
    if (was.limit_slot2 && was.limit_slot2 != is.limit_slot2) readers->named_slot_freed(before.queue, *was.limit_slot2);
}

void log_wait(const JobState &before, const JobState &after) {
    const core::Life &is = after.life;
    if (is.ready && may_become_claimable(before, after))
        readers->ready(after.queue, after.lane, {is.run_at, after.id, after.priority}, false);
    if (is.due && (!before.life.due || before.life.run_at != is.run_at || before.id != after.id))
        log_due_job(is.run_at, after.id);
}

// Logs the time at which the lease of a job in the rescue's index expires, so that the rescue checks the job at this
// time. After a cancellation request, makes the rescue check the job immediately. The rescue then computes when the
// grace period of the cancellation ends.
void tell_of_running(const JobState &before, const JobState &after) {
    const core::Life &was = before.life, &is = after.life;
    if (was.lease && was.lease != is.lease) readers->lease_ended(before.id, *was.lease);
    if (is.status != core::JobStatus::Processing || !is.rescue_indexed) return;
    if (!was.rescue_indexed || before.id != after.id) log_key(core::KeySpace::Running, core::running_key(after.id));
    const bool asked = is.cancel_requested_at && was.cancel_requested_at != is.cancel_requested_at;
    if (asked)
        log_lease_deadline(DT_NOBEGIN);
    else if (!was.rescue_indexed || was.lease != is.lease)
        log_lease_deadline(core::deadline_of(is));
}

}  // namespace

void set_change_callbacks(const ChangeCallbacks *all) { readers = all; }

JobState state_of_row(TupleTableSlot *row) {
    // Deforms the whole row at once, which is faster than deforming it separately for each column.
    slot_getallattrs(row);
    bool none;
    const auto at = [&](JobColumn column) { return slot_getattr(row, column, &none); };
    JobState state = {.id = DatumGetInt64(at(kJobId)),
                      .queue = view(DatumGetTextPP(at(kJobQueue))),
                      .kind = view(DatumGetTextPP(at(kJobKind))),
                      .concurrency_key = {},
                      .lane = DatumGetInt64(at(kJobLane)),
                      .priority = DatumGetInt16(at(kJobPriority)),
                      .life = life_of(row),
                      .batch = 0};
    const Datum key = at(kJobConcurrencyKey);
    if (!none) state.concurrency_key = view(DatumGetTextPP(key));
    const Datum batch = at(kJobBatchId);
    if (!none) state.batch = DatumGetInt64(batch);
    return state;
}

JobState state_of_tuple(HeapTuple row, TupleDesc desc) {
    TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
    ExecStoreHeapTuple(row, slot, false);
    const JobState state = state_of_row(slot);
    ExecDropSingleTupleTableSlot(slot);
    return state;
}

JobState state_of(const JobsTable &jobs) { return state_of_row(jobs.table.row); }

bool runs_under(const JobsTable &jobs, const core::OptInt64 &lease) {
    bool none;
    const Datum held = job_value(jobs, kJobLease, &none);
    return (none ? OptInt64() : OptInt64(DatumGetInt64(held))) == lease &&
           has_status(jobs, core::JobStatus::Processing);
}

bool write_life(JobsTable *jobs, const JobState &before, const core::Life &after, const OtherColumns &others,
                core::Life *left, LockWaitPolicy wait) {
    Table *table = &jobs->table;
    Written written;
    written.count = 0;
    collect(&written, core::differing(before.life, after), after);
    collect(&written, others);
    if (written.count == 0) return true;
    begin_change(table);
    for (int i = 0; i < written.count; i++) {
        table->changed->tts_values[written.columns[i] - 1] = written.values[i];
        table->changed->tts_isnull[written.columns[i] - 1] = written.nulls[i];
    }
    if (!update_row(table, written.columns, written.count, wait)) return false;
    JobState now = state_of_row(table->changed);
    now.life.cause = after.cause;
    log_change(before, now);
    if (left != nullptr) *left = now.life;
    return true;
}

void fill_life(TupleTableSlot *row, const core::Life &life) {
    NewRow to = {row};
    collect(&to, UINT32_MAX, life);
}

HeapTuple with_life(HeapTuple row, TupleDesc desc, const core::Life &life) {
    Written written = all_columns_of(life);
    return with_written(row, desc, &written);
}

HeapTuple with_first_life(HeapTuple row, TupleDesc desc, int max_attempts, core::Micros expires_in, TimestampTz now) {
    Written written;
    written.count = 0;
    const auto lacks = [&](JobColumn column) { return heap_attisnull(row, column, desc); };
    bool none;
    const core::Micros run_at = lacks(kJobRunAt) ? now : DatumGetInt64(SPI_getbinval(row, desc, kJobRunAt, &none));
    if (lacks(kJobRunAt)) write_Moment(&written, kJobRunAt, run_at);
    if (lacks(kJobStatus)) write_Status(&written, kJobStatus, core::waiting_status(run_at, now));
    if (lacks(kJobMaxAttempts)) write_Count(&written, kJobMaxAttempts, max_attempts);
    if (lacks(kJobExpiresAt) && expires_in > 0)
        write_Number(&written, kJobExpiresAt, core::saturating_add(run_at, expires_in));
    for (const JobColumn column : {kJobAttempts, kJobLostAttempts})
        if (lacks(column)) write_Count(&written, column, 0);
    return with_written(row, desc, &written);
}

void write_locked_life(JobsTable *jobs, const JobState &before, const core::Life &after, const OtherColumns &others) {
    if (!write_life(jobs, before, after, others)) row_was_changed_twice();
}

bool try_change(JobsTable *jobs, const core::Event &event, const OtherColumns &others) {
    const JobState before = state_of(*jobs);
    return !core::applies(event.kind, before.life) ||
           write_life(jobs, before, core::after_event(before.life, event), others);
}

void change_locked_job(JobsTable *jobs, const core::Event &event, const OtherColumns &others) {
    if (!try_change(jobs, event, others)) row_was_changed_twice();
}

void apply_event(const Datum *ids, int count, const core::Event &event) {
    change_locked_jobs(
        count, [&](int i) { return DatumGetInt64(ids[i]); },
        [&](JobsTable *jobs, int) { return try_change(jobs, event); });
}

void hint_at_change(const JobState &before, const JobState &after) {
    tell_of_running(before, after);
    log_slots(before, after);
    log_claimable(before, after);
    log_wait(before, after);
    if (before.id != after.id) log_finished(before.id);
    if (core::is_finished(after.life.status) && !core::is_finished(before.life.status)) {
        log_finished(after.id, after.life.status == core::JobStatus::Completed);
        if (after.batch != 0) log_member_ended();
    }
    if (core::halts_group(after.life) &&
        (!core::halts_group(before.life) || before.kind != after.kind || before.id != after.id))
        log_unblocked(Blocker::Halt, after.id);
}

void log_change(const JobState &before, const JobState &after) {
    const core::JobStatus was = before.life.status, is = after.life.status;
    if (before.queue != after.queue)
        count_move_at_commit(before.queue, was, after.queue, is);
    else if (was != is)
        count_at_commit(after.queue, was, is, 1);
    tally_at_commit(after.queue, after.kind, core::what_happened(before.life, after.life));
    // log_head_ended() is called here and not in hint_at_change(), because it must be called only if the change is
    // certain. Here, the change is known to be based on the newest version of the row.
    const core::OptInt64 &headed = before.life.group_active;
    if (headed && headed != after.life.group_active) log_head_ended(*headed, before.id);
    hint_at_change(before, after);
}

void log_new_job(const JobState &job, bool unclaimed) {
    const core::Life &is = job.life;
    count_inserts_at_commit(job.queue, is.status, 1);
    tally_at_commit(job.queue, job.kind, core::what_happened_to_new(is));
    if (is.group_waiting) publish_group_waits(*is.group_waiting, job.id);
    if (is.group_active) leave_next_heads();
    if (core::halts_group(is)) log_unblocked(Blocker::Halt, job.id);
    if (is.ready) readers->ready(job.queue, job.lane, {is.run_at, job.id, job.priority}, unclaimed);
    if (is.due) log_due_job(is.run_at, job.id);
    if (is.rescue_indexed) log_key(core::KeySpace::Running, core::running_key(job.id));
}

void count_deleted_job(std::string_view queue, std::string_view kind, core::JobStatus status) {
    count_deletes_at_commit(queue, status, 1);
    tally_at_commit(queue, kind, core::what_happened_to_gone(status));
}

void log_deleted_job(const JobState &job) {
    const core::Life &was = job.life;
    count_deleted_job(job.queue, job.kind, was.status);
    if (was.lease) readers->lease_ended(job.id, *was.lease);
    JobState gone = job;
    core::forget_slots(&gone.life);
    gone.life.group_active = {};
    log_slots(job, gone);
    log_claimable(job, gone);
    log_finished(job.id, was.status == core::JobStatus::Completed);
}

}  // namespace jobq
