// The part of the repair that renumbers jobs whose rows came from another database (lanes/own_numbers.h). Triggers
// renumber such rows when they are inserted, unless the triggers are disabled, for example by pg_restore
// --disable-triggers.
//
// Whenever triggers are enabled or disabled, a new epoch begins (row/jobs_catalog.h). Rows that were inserted while the
// triggers were disabled have been committed before the next epoch begins, so one search of the whole table in each
// epoch finds them. The search reads the primary key in pieces. All jobs that it finds are renumbered in one
// transaction, because a group in which only some jobs have been renumbered would have two heads.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "duties/change_jobs.h"
#include "duties/renumber.h"
#include "lanes/lanes.h"
#include "lanes/own_numbers.h"
#include "log/transaction_log.h"
#include "row/jobs_table.h"
#include "shmem/database_state.h"

namespace jobq {

namespace {

// Number of jobs per piece. The number is limited so that the other duties in the round do not have to wait long.
constexpr int kPiece = 5000;

// Selects whether the search in epoch $1 has been completed. Returns no row if the secret is lost; without the secret,
// no job can be numbered.
Statement was_looked_in = {"SELECT s.numbered_in IS NOT DISTINCT FROM $1 FROM jobq.hash_secret s", {INT8OID}};
Statement note_looked_in = {"UPDATE jobq.hash_secret s SET numbered_in = $1", {INT8OID}, Planning::Free};
Statement read_piece = {"SELECT j.id FROM jobq.jobs j WHERE j.id > $1 ORDER BY j.id LIMIT $2", {INT8OID, INT8OID}};
Statement number_lanes = {
    "UPDATE jobq.lane_directory d SET lane = jobq.lane_of(d.queue, d.kind, d.version, d.requires, d.limits), "
    "changed_xid = pg_current_xact_id() "
    "WHERE d.lane <> jobq.lane_of(d.queue, d.kind, d.version, d.requires, d.limits)",
    {},
    Planning::Free};

// The progress of the search in this process.
struct {
    uint64 epoch;  // kNoEpoch if the search has not begun
    int64 behind;
    bool found;
} look = {kNoEpoch, PG_INT64_MIN, false};

OwnNumbers numbers_of(const JobsTable &jobs) {
    return own_numbers(ExecCopySlotHeapTuple(jobs.table.row), jobs.table.row->tts_tupleDescriptor);
}

// Reads a piece of the table, and calls body(jobs, numbers) for each job whose numbers were assigned in another
// database. The job is the current row of `jobs`. Returns false if this was the last piece.
template <typename Body>
bool for_each_misnumbered(int64 *behind, Body body) {
    const Rows rows = run(read_piece, Params().add(Int64GetDatum(*behind)).add(Int64GetDatum(kPiece)));
    if (rows.size() > 0) *behind = rows[rows.size() - 1].int64_at(1);
    MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "jobq renumber", ALLOCSET_DEFAULT_SIZES);
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (uint64 i = 0; i < rows.size(); i++) {
        CHECK_FOR_INTERRUPTS();
        if (!find_job(&jobs, rows[i].int64_at(1))) continue;
        MemoryContext outer = MemoryContextSwitchTo(scratch);
        const OwnNumbers numbers = numbers_of(jobs);
        MemoryContextSwitchTo(outer);
        if (numbers.differ) body(&jobs, numbers);
        MemoryContextReset(scratch);
    }
    close_jobs(&jobs);
    MemoryContextDelete(scratch);
    return rows.size() == kPiece;
}

// Renumbers one job. Returns false if another transaction has locked the job.
bool renumber_job(JobsTable *jobs, const OwnNumbers &own) {
    if (!lock_row_or_skip(&jobs->table)) return false;
    OtherColumns others = {};
    others.set(kJobLane, Int64GetDatum(own.lane));
    if (own.round_robin_key) others.set(kJobRoundRobinKey, Int64GetDatum(*own.round_robin_key));
    write_locked_life(jobs, own.found, own.life, others);
    return true;
}

// Renumbers all jobs that the search has found. If another transaction has locked one of these jobs, returns false and
// changes nothing.
bool renumber_all(int64 *count) {
    return keep_if([&] {
        bool all = true;
        int64 behind = PG_INT64_MIN;
        *count = 0;
        while (for_each_misnumbered(&behind,
                                    [&](JobsTable *jobs, const OwnNumbers &own) {
                                        all = all && renumber_job(jobs, own);
                                        ++*count;
                                    }) &&
               all)
            continue;
        return all;
    });
}

void renumber(bool any, const Params &looked, DutyOutcome *outcome) {
    int64 count = 0;
    if (any && !renumber_all(&count)) return;
    run(number_lanes, Params());
    if (affected() > 0) invalidate_lanes();
    // The changes to the jobs were logged with the old numbers of their groups, so all groups must be checked for jobs
    // that can be unblocked.
    if (count > 0) log_unblocked_anywhere(Blocker::Group);
    run(note_looked_in, looked);
    outcome->done += count;
}

}  // namespace

void renumber_jobs(DutyOutcome *outcome) {
    const uint64 epoch = trigger_epoch();
    // Does nothing under an old snapshot, which might not show all committed rows.
    if (epoch == kNoEpoch || IsolationUsesXactSnapshot()) return;
    const Params looked = Params().add(Int64GetDatum(static_cast<int64>(epoch)));
    const Rows rows = run(was_looked_in, looked);
    if (rows.size() == 0 || rows[0].bool_at(1)) return;
    if (look.epoch != epoch) look = {epoch, PG_INT64_MIN, false};
    if (for_each_misnumbered(&look.behind, [](JobsTable *, const OwnNumbers &) { look.found = true; })) {
        outcome->goes_on = outcome->unread = true;
        return;
    }
    const bool found = look.found;
    look.epoch = kNoEpoch;
    // Lets the repair continue if a row cannot be changed, for example because another role's trigger raises an error.
    change_beside(
        "numbers of jobq.jobs", [&] { renumber(found, looked, outcome); }, outcome);
}

}  // namespace jobq
