// The triggers for UPDATE, DELETE, and TRUNCATE on jobq.jobs, which handle the consequences of changes made with plain
// SQL and of replicated changes.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "core/group.h"
#include "edges/edges.h"
#include "enqueue/enqueue.h"
#include "finish/batch_members.h"
#include "finish/dead_letters.h"
#include "finish/ending.h"
#include "finish/kept_keys.h"
#include "groups/dependents.h"
#include "leases/rescue_index.h"
#include "limits/limit_settings.h"
#include "log/transaction_log.h"
#include "queues/directory.h"
#include "row/numbers.h"
#include "row/shard.h"
#include "steps/steps.h"
#include "triggers/job_row.h"

namespace jobq {

namespace {

[[noreturn]] void refuse_move() {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("a running job cannot be moved to another group"),
                    errdetail("Another job may be the head of that group."),
                    errhint("Change \"queue\" or \"group_key\" while the job is not running.")));
    pg_unreachable();
}

// Returns whether the update leaves a column unchanged. The column must be passed by value.
bool is_same(const JobRow &before, const JobRow &after, JobColumn column) {
    return before.has(column) == after.has(column) && (!after.has(column) || before.get(column) == after.get(column));
}

bool same_text(const JobRow &a, const JobRow &b, JobColumn column) {
    return a.has(column) == b.has(column) && (!a.has(column) || text_of(a, column) == text_of(b, column));
}

bool same_span(const JobRow &a, const JobRow &b, JobColumn column) {
    return a.has(column) == b.has(column) &&
           (!a.has(column) || span_of(DatumGetIntervalP(a.get(column))) == span_of(DatumGetIntervalP(b.get(column))));
}

// Returns whether the job still runs and the columns that determine the end of its maximum runtime are unchanged.
bool keeps_end(const JobRow &before, const JobRow &row) {
    return status_of(before) == core::JobStatus::Processing && status_of(row) == core::JobStatus::Processing &&
           is_same(before, row, kJobLease) && is_same(before, row, kJobStartedAt) &&
           same_text(before, row, kJobQueue) && same_span(before, row, kJobMaxRuntime);
}

// Determines whether a job that plain SQL has changed is the head of its group, waits in the line, or neither.
core::GroupPlace changed_place(const JobRow &before, const JobRow &row, bool *has_left) {
    const core::GroupPlace had = before.has(kJobGroupActive)    ? core::GroupPlace::Active
                                 : before.has(kJobGroupWaiting) ? core::GroupPlace::Waiting
                                                                : core::GroupPlace::None;
    *has_left = had != core::GroupPlace::None && !row.has(kJobGroupKey);
    core::GroupPlace place = core::GroupPlace::None;
    if (!row.has(kJobGroupKey)) return place;
    const bool same_group = before.has(kJobGroupKey) && group_of(before) == group_of(row);
    // A job that awaits something stays the head of its group, like a scheduled job.
    const core::JobStatus status = core::awaits(row.state().life) ? core::JobStatus::Scheduled : status_of(row);
    const bool fails = status == core::JobStatus::Failed && status_of(before) != core::JobStatus::Failed;
    const bool keeps_place = same_group && (!fails || halts_on_failure(row.state()));
    if (!core::place_updated(keeps_place ? had : core::GroupPlace::None, status, &place)) {
        if (status_of(before) == core::JobStatus::Processing) refuse_move();
        refuse_not_group_head();
    }
    return place;
}

// Columns whose values must be true or NULL, because their partial indexes require it. If plain SQL writes false, NULL
// is stored instead.
constexpr struct {
    JobColumn column;
    bool core::Life::*member;
} kFlags[] = {{kJobHoldsKey, &core::Life::holds_key},
              {kJobReady, &core::Life::ready},
              {kJobDue, &core::Life::due},
              {kJobRescueIndexed, &core::Life::rescue_indexed}};

// Makes a job consistent again after an UPDATE with plain SQL.
void settle(const JobRow &before, const JobRow &row) {
    bool has_left;
    const core::GroupPlace place = changed_place(before, row, &has_left);
    const int64 lane = lane_of(row);
    const Queue *queue = find_queue(text_of(row, kJobQueue));
    const core::Life was = before.state().life;
    core::ByHand facts = facts_by_hand(row, *queue, place, has_left);
    facts.ends_halt =
        core::halts_group(was) && place != core::GroupPlace::Active && is_same(before, row, kJobFinishedAt);
    facts.keeps_end = keeps_end(before, row);
    facts.end = was.must_end_at;
    const bool round_robin = queue->round_robin;
    const TimestampTz now = GetCurrentTimestamp();
    Endings endings = {};
    change_locked_jobs(
        1, [&](int) { return DatumGetInt64(row.get(kJobId)); },
        [&](JobsTable *jobs, int) {
            JobState current = state_of(*jobs);
            core::Life written = current.life;
            if (row.has(kJobGroupKey)) written.group = group_of(row);
            core::Life life = core::changed_by_hand(written, facts, now);
            OtherColumns others = {};
            if (!keeps_slots(slots_of(before), slots_of(row))) {
                // The slots were taken from the limits of the previous queue, key, kind, and names, so the job must not
                // keep them.
                for (const JobColumn column :
                     {kJobQueueSlot, kJobKeySlot, kJobKindSlot, kJobLimitSlot1, kJobLimitSlot2, kJobSlotSeq})
                    if (job_has(*jobs, column)) others.clear(column);
                core::forget_slots(&current.life);
                core::forget_slots(&life);
            }
            for (const auto &flag : kFlags)
                if (job_has(*jobs, flag.column) && !(current.life.*flag.member) && !(life.*flag.member))
                    others.clear(flag.column);
            if (current.lane != lane) others.set(kJobLane, Int64GetDatum(lane));
            const Datum round_robin_key = Int64GetDatum(round_robin_key_of(current.concurrency_key));
            bool keyless;
            if (round_robin != job_has(*jobs, kJobRoundRobinKey) ||
                (round_robin && job_value(*jobs, kJobRoundRobinKey, &keyless) != round_robin_key))
                others.set_if(round_robin, kJobRoundRobinKey, round_robin_key);
            if (!write_life(jobs, current, life, others)) return false;
            // note_end() needs the state that the job had before the UPDATE, which only this trigger knows.
            current.life = was;
            note_end(*jobs, current, life, now, &endings);
            return true;
        });
    settle_endings(endings, now);
    if (place == core::GroupPlace::Active && !is_same(before, row, kJobId))
        // Sessions that promote jobs cache the ids of the heads of groups. The id of this head has changed, so these
        // sessions must look up the heads again.
        log_unblocked_anywhere(Blocker::Group);
}

// If plain SQL sets a job to failed, moves it to the dead letter queue, like any other failed job. If plain SQL makes a
// dead letter run again, moves it back to its queue, unless the same UPDATE has changed its queue.
void follow_dead_letter(const JobRow &before, const JobRow &row) {
    Datum id = row.get(kJobId);
    // Handles only jobs that had already finished before the UPDATE, because settle() has already moved the other
    // failed jobs.
    if (status_of(row) == core::JobStatus::Failed && status_of(before) != core::JobStatus::Failed &&
        core::is_finished(status_of(before)))
        move_to_dead_letters(&id, 1);
    else if (row.has(kJobDeadFrom) && !core::is_finished(status_of(row))) {
        if (text_of(row, kJobQueue) == text_of(before, kJobQueue))
            return_dead_letters(&id, 1);
        else
            forget_origin(DatumGetInt64(id));
    }
}

// Returns whether the UPDATE gives the job a unique key that it did not hold before.
bool takes_key(const JobRow &before, const JobRow &row) {
    return row.has(kJobUniqueKey) && !core::is_finished(status_of(row)) &&
           (core::is_finished(status_of(before)) || !same_text(before, row, kJobUniqueKey) ||
            !same_text(before, row, kJobQueue));
}

// Removes the edges of a job that no longer exists, and handles the consequences for other jobs.
void forget_row_edges(const JobRow &row) {
    bool none;
    const Datum result = row.get(kJobResult, &none);
    forget_edges(DatumGetInt64(row.get(kJobId)), status_of(row) == core::JobStatus::Completed,
                 none ? nullptr : &result);
}

// Moves the attempts, steps, and edges of a job to its new id. For other jobs that refer to the old id, the change has
// the same effect as deleting the job.
void follow_id(const JobRow &before, const JobRow &row) {
    const int64 old_id = DatumGetInt64(before.get(kJobId)), new_id = DatumGetInt64(row.get(kJobId));
    if (old_id == new_id) return;
    move_attempts(old_id, new_id);
    move_steps(old_id, new_id);
    move_edges(old_id, new_id);
    forget_row_edges(before);
}

// If plain SQL sets a job to blocked, makes the job wait for its dependencies again. Skips a job that was already
// waiting in the line of its group: its dependencies had ended, and it does not wait for dependencies that were added
// later.
void follow_dependent(const JobRow &before, const JobRow &row) {
    Datum id = row.get(kJobId);
    const bool was_in_line = status_of(before) == core::JobStatus::Blocked && before.has(kJobGroupWaiting);
    if (status_of(row) == core::JobStatus::Blocked && !was_in_line) settle_dependents(array_of(&id, 1, INT8OID));
    // After a job that awaits a signal has been moved to another queue, it awaits a signal in the new queue. This
    // signal might have been sent already, so the job must run to check for it.
    if (core::awaits(row.state().life) && !same_text(before, row, kJobQueue))
        apply_event(&id, 1, {core::EventKind::WaitOver, GetCurrentTimestamp()});
}

// If plain SQL has changed the batch of a job, joins the new batch, and lets the duty "batches" check the previous one.
void follow_batch(const JobRow &before, const JobRow &row) {
    if (is_same(before, row, kJobBatchId)) return;
    if (row.has(kJobBatchId)) join_batch(DatumGetInt64(row.get(kJobBatchId)), nullptr);
    log_member_ended();
}

// Makes sure that the rescue checks a running job that was inserted here or was claimed on another server. `before` is
// nullptr if the row is new.
void tell_of_running(const JobRow *before, const JobRow &row) {
    if (status_of(row) != core::JobStatus::Processing) return;
    const auto same = [&](JobColumn column) { return is_same(*before, row, column); };
    const bool ran = before != nullptr && status_of(*before) == core::JobStatus::Processing && same(kJobLease);
    // A heartbeat or progress report requires no action, because the rescue already checks the job.
    if (ran && same(kJobRescueIndexed) && same(kJobMustEndAt) && same(kJobCancelRequestedAt) &&
        row.has(kJobLastHeartbeat) && before->has(kJobLastHeartbeat) &&
        DatumGetTimestampTz(row.get(kJobLastHeartbeat)) >= DatumGetTimestampTz(before->get(kJobLastHeartbeat)))
        return;
    if (row.has(kJobRescueIndexed) && DatumGetBool(row.get(kJobRescueIndexed)))
        log_lease_deadline(DT_NOBEGIN);
    else if (row.has(kJobLease))
        index_arrived_job(DatumGetInt64(row.get(kJobId)), DatumGetInt64(row.get(kJobLease)),
                          row.has(kJobWorkerId) ? DatumGetTextPP(row.get(kJobWorkerId)) : make_text(""));
    else
        index_unleased_job(DatumGetInt64(row.get(kJobId)));
}

}  // namespace

extern "C" {

// The trigger function for replicated changes, which are published but neither counted nor checked.
PG_FUNCTION_INFO_V1(jobq_tell_job);
PGDLLEXPORT Datum jobq_tell_job(PG_FUNCTION_ARGS) {
    const bool update = TRIGGER_FIRED_BY_UPDATE(trigger_data(fcinfo)->tg_event);
    const TriggerData *trigger = job_trigger(fcinfo, update ? TRIGGER_EVENT_UPDATE : TRIGGER_EVENT_INSERT, false);
    const JobRow row(update ? trigger->tg_newtuple : trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation));
    const JobRow before(trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation));
    tell_of_running(update ? &before : nullptr, row);
    JobState was = before.state();
    const JobState is = row.state();
    // If there is no previous state, the job is published as new.
    if (!update) was.life = {};
    hint_at_change(was, is);
    if (was.life.group_active != is.life.group_active) log_group_head(is.life);
    if (update && is.life.status == core::JobStatus::Processing && was.life.status != core::JobStatus::Processing)
        log_claim(text_of(row, kJobQueue), 1);
    return Datum(0);
}

PG_FUNCTION_INFO_V1(jobq_follow_job);
PGDLLEXPORT Datum jobq_follow_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_UPDATE, false);
    const JobRow row(trigger->tg_newtuple, RelationGetDescr(trigger->tg_relation));
    check_row(row);
    check_history(row);
    const JobRow before(trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation));
    if (!is_same(before, row, kJobId)) {
        check_id(row);
        require_own_shard(DatumGetInt64(row.get(kJobId)));
    }
    // Logs the change that the statement has made; settle() logs the changes that follow from it.
    JobState left = row.state();
    if (!keeps_slots(slots_of(before), slots_of(row))) core::forget_slots(&left.life);
    log_change(before.state(), left);
    with_spi([&] {
        settle(before, row);
        follow_slots(slots_of(before), slots_of(row));
        if (takes_key(before, row)) {
            const bool goes_home = row.has(kJobDeadFrom) && same_text(before, row, kJobQueue);
            check_kept_key(row, goes_home ? kJobDeadFrom : kJobQueue);
            Datum id = row.get(kJobId);
            drop_own_kept_keys(&id, 1);
        }
        follow_dead_letter(before, row);
        follow_id(before, row);
        follow_batch(before, row);
        follow_dependent(before, row);
    });
    log_lease_deadline(DT_NOBEGIN);
    doubt_heartbeats();
    return Datum(0);
}

PG_FUNCTION_INFO_V1(jobq_forget_job);
PGDLLEXPORT Datum jobq_forget_job(PG_FUNCTION_ARGS) {
    if (TRIGGER_FIRED_BY_TRUNCATE(trigger_data(fcinfo)->tg_event)) {
        with_spi([] {
            delete_all_attempts();
            delete_all_steps();
            forget_all_edges();
            drop_all_kept_keys();
            forget_all_batches();
        });
        recount_at_commit();
        log_finished_anywhere();
        slots_freed_at_commit();
    } else {
        const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_DELETE, false);
        TupleDesc desc = RelationGetDescr(trigger->tg_relation);
        const JobRow row(trigger->tg_trigtuple, desc);
        const JobState job = row.state();
        log_deleted_job(job);
        Datum id = row.get(kJobId);
        with_spi([&] {
            delete_attempts(&id, 1);
            delete_steps(&id, 1);
            forget_row_edges(row);
            const GoneMember member = {job.batch, job.life.status};
            count_gone_members(&member, job.batch == 0 ? 0 : 1);
        });
    }
    return Datum(0);
}

}  // extern "C"

}  // namespace jobq
