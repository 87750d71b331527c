// The triggers of an UPDATE, DELETE or TRUNCATE of jobq.jobs: what follows from a change by hand, and from a replicated
// one.
#include "pg/pg.h"

#include "core/group.h"
#include "functions/job_row.h"
#include "pg/args.h"
#include "pg/spi.h"
#include "shared/counting.h"
#include "shared/limits.h"
#include "shared/publish.h"
#include "shared/unblock.h"
#include "store/dead_letters.h"
#include "store/dependencies.h"
#include "store/dependents.h"
#include "store/directory.h"
#include "store/enqueue.h"
#include "store/finish.h"
#include "store/groups.h"
#include "store/kept_keys.h"
#include "store/limit_settings.h"
#include "store/watch.h"

namespace jobq {

namespace {

[[noreturn]] void refuse_move() {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("a running job cannot be moved to another group"),
                    errdetail("Another job of that group may have its turn."),
                    errhint("Change queue or group_key when it does not run.")));
    pg_unreachable();
}

// The place of a job that was changed by hand; tells of what that leaves free, and of a job that waits from now on.
GroupEntry follow_group(const JobRow &before, const JobRow &row) {
    GroupEntry entry = {core::GroupPlace::None, 0, false};
    core::GroupPlace place = before.has(kJobGroupActive)    ? core::GroupPlace::Active
                             : before.has(kJobGroupWaiting) ? core::GroupPlace::Waiting
                                                            : core::GroupPlace::None;
    const bool was_active = place == core::GroupPlace::Active;
    entry.has_left = place != core::GroupPlace::None && !row.has(kJobGroupKey);
    if (row.has(kJobGroupKey)) {
        entry.group = group_of(row);
        if (!before.has(kJobGroupKey) || group_of(before) != entry.group) place = core::GroupPlace::None;
        if (!core::place_updated(place, status_of(row), &entry.place)) {
            if (status_of(before) == core::JobStatus::Processing) refuse_move();
            refuse_turn();
        }
    }
    const int64 id = DatumGetInt64(row.get(kJobId));
    if (was_active && entry.place != core::GroupPlace::Active)
        publish_group_free(DatumGetInt64(before.get(kJobGroupActive)));
    if (entry.place == core::GroupPlace::Waiting) publish_group_waits(entry.group, id);
    // Promoters remember active jobs by their ids.
    if (entry.place == core::GroupPlace::Active && DatumGetInt64(before.get(kJobId)) != id)
        publish_unblocked_anywhere_at_commit(Blocker::Group);
    return entry;
}

// A job that has failed by hand is moved like any other. A dead letter that shall run again goes home, unless the same
// UPDATE has put it into a queue.
void follow_dead_letter(const JobRow &before, const JobRow &row) {
    Datum id = row.get(kJobId);
    if (status_of(row) == core::JobStatus::Failed && status_of(before) != core::JobStatus::Failed)
        bury_jobs(array_of(&id, 1, INT8OID));
    else if (row.has(kJobDeadFrom) && !core::is_finished(status_of(row))) {
        if (text_of(row, kJobQueue) == text_of(before, kJobQueue))
            send_home(array_of(&id, 1, INT8OID));
        else
            forget_origin(DatumGetInt64(id));
    }
}

// A job that has just finished by hand, in a queue that keeps none such, goes as by a call. A dead letter stays.
void follow_retention(const JobRow &row) {
    const Queue *queue = find_queue(text_of(row, kJobQueue));
    const bool completed = status_of(row) == core::JobStatus::Completed;
    if (status_of(row) == core::JobStatus::Failed && !queue->dead_letter_queue.empty()) return;
    if ((completed ? queue->keep_completed : queue->keep_failed) > 0) return;
    Datum id = row.get(kJobId);
    delete_jobs_and_attempts(&id, 1);
}

bool same_text(const JobRow &a, const JobRow &b, JobColumn column) {
    return a.has(column) == b.has(column) && (!a.has(column) || text_of(a, column) == text_of(b, column));
}

// Whether an UPDATE has made the job hold a key that it did not hold before.
bool takes_key(const JobRow &before, const JobRow &row) {
    return row.has(kJobUniqueKey) && !core::is_finished(status_of(row)) &&
           (core::is_finished(status_of(before)) || !same_text(before, row, kJobUniqueKey) ||
            !same_text(before, row, kJobQueue));
}

// A row that is gone.
void forget_row_dependencies(const JobRow &row) {
    bool none;
    const Datum result = row.get(kJobResult, &none);
    forget_dependencies(DatumGetInt64(row.get(kJobId)), status_of(row) == core::JobStatus::Completed,
                        none ? nullptr : &result);
}

// A job that is blocked by hand waits for its dependencies again. One that gets another id leaves its old one behind
// like a job that is deleted.
void follow_dependent(const JobRow &before, const JobRow &row) {
    Datum id = row.get(kJobId);
    if (status_of(row) == core::JobStatus::Blocked) settle_dependents(array_of(&id, 1, INT8OID));
    const int64 old_id = DatumGetInt64(before.get(kJobId));
    if (old_id != DatumGetInt64(id)) forget_row_dependencies(before);
}

// The places of limits that a replicated change gives back, or takes.
void publish_slots(const JobRow &before, const JobRow &after) {
    const SlotRow had = slots_of(before), has = slots_of(after);
    if (had.queue_slot != 0 && had.queue_slot != has.queue_slot) slot_freed_at_commit(had.queue, {}, had.queue_slot);
    if (had.key_slot != 0 && had.key_slot != has.key_slot) slot_freed_at_commit(had.queue, had.key, had.key_slot);
    if (has.running && !had.running) publish_claim_at_abort();
}

// Tells whoever waits for a job of what became of it by an UPDATE.
void publish_end(const JobRow &before, const JobRow &after) {
    const int64 id = DatumGetInt64(before.get(kJobId));
    if (core::is_finished(status_of(after)) || DatumGetInt64(after.get(kJobId)) != id) publish_finished_at_commit(id);
}

// Of a column that is passed by value.
bool is_same(const JobRow &before, const JobRow &after, JobColumn column) {
    return before.has(column) == after.has(column) && (!after.has(column) || before.get(column) == after.get(column));
}

// A running job that has come, or has been claimed elsewhere: the rescue must know of it. `before`: nullptr, it is new.
void tell_of_running(const JobRow *before, const JobRow &row) {
    if (status_of(row) != core::JobStatus::Processing) return;
    const auto same = [&](JobColumn column) { return is_same(*before, row, column); };
    const bool ran = before != nullptr && status_of(*before) == core::JobStatus::Processing && same(kJobLease);
    // A heartbeat, or a report of progress: it has been told of.
    if (ran && same(kJobWatched) && same(kJobMustEndAt) && same(kJobCancelRequestedAt) && row.has(kJobLastHeartbeat) &&
        before->has(kJobLastHeartbeat) &&
        DatumGetTimestampTz(row.get(kJobLastHeartbeat)) >= DatumGetTimestampTz(before->get(kJobLastHeartbeat)))
        return;
    if (row.has(kJobWatched) && DatumGetBool(row.get(kJobWatched)))
        publish_lease_deadline_at_commit(DT_NOBEGIN);
    else if (row.has(kJobLease))
        watch_arrived_job(DatumGetInt64(row.get(kJobId)), DatumGetInt64(row.get(kJobLease)),
                          row.has(kJobWorkerId) ? DatumGetTextPP(row.get(kJobWorkerId)) : make_text(""));
    else
        watch_unleased_job(DatumGetInt64(row.get(kJobId)));
}

}  // namespace

extern "C" {

// Of replicated changes, nothing of which is counted or checked.
PG_FUNCTION_INFO_V1(jobq_tell_job);
PGDLLEXPORT Datum jobq_tell_job(PG_FUNCTION_ARGS) {
    const bool update = TRIGGER_FIRED_BY_UPDATE(trigger_data(fcinfo)->tg_event);
    const TriggerData *trigger = job_trigger(fcinfo, update ? TRIGGER_EVENT_UPDATE : TRIGGER_EVENT_INSERT, false);
    const JobRow row(update ? trigger->tg_newtuple : trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation));
    if (row.has(kJobReadyAt) || row.has(kJobDueAt)) publish_row(row);
    const JobRow before(trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation));
    tell_of_running(update ? &before : nullptr, row);
    if (!update) {
        publish_place(row);
        return PointerGetDatum(nullptr);
    }
    // A heartbeat says nothing of a group.
    if (!is_same(before, row, kJobGroupActive) || !is_same(before, row, kJobGroupWaiting)) {
        if (before.has(kJobGroupActive)) publish_group_free(DatumGetInt64(before.get(kJobGroupActive)));
        publish_place(row);
    }
    publish_slots(before, row);
    publish_end(before, row);
    return PointerGetDatum(nullptr);
}

PG_FUNCTION_INFO_V1(jobq_follow_job);
PGDLLEXPORT Datum jobq_follow_job(PG_FUNCTION_ARGS) {
    const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_UPDATE, false);
    const JobRow row(trigger->tg_newtuple, RelationGetDescr(trigger->tg_relation));
    check_row(row);
    check_history(row);
    // Up to what the statement left behind; settle_job() counts what it changes itself.
    const JobRow before(trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation));
    count_move_at_commit(text_of(before, kJobQueue), status_of(before), text_of(row, kJobQueue), status_of(row));
    with_spi([&] {
        const int64 lane = lane_of(row);
        const GroupEntry entry = follow_group(before, row);
        settle_job(DatumGetInt64(row.get(kJobId)), lane, *find_queue(text_of(row, kJobQueue)), entry);
        follow_slots(slots_of(before), slots_of(row));
        // It finishes now; what it was before is known to this trigger alone.
        Datum id = row.get(kJobId);
        if (core::is_finished(status_of(row)) && !core::is_finished(status_of(before)) && row.has(kJobUniqueFor))
            keep_keys_of(&id, 1, GetCurrentTimestamp());
        if (takes_key(before, row)) {
            const bool goes_home = row.has(kJobDeadFrom) && same_text(before, row, kJobQueue);
            check_kept_key(row, goes_home ? kJobDeadFrom : kJobQueue);
            drop_own_kept_keys(&id, 1);
        }
        follow_dead_letter(before, row);
        follow_dependent(before, row);
        if (core::is_finished(status_of(row)) && !core::is_finished(status_of(before))) follow_retention(row);
    });
    publish_end(before, row);
    publish_due_at_commit(DatumGetTimestampTz(row.get(kJobRunAt)));
    publish_lease_deadline_at_commit(DT_NOBEGIN);
    doubt_heartbeats();
    return PointerGetDatum(nullptr);
}

PG_FUNCTION_INFO_V1(jobq_forget_job);
PGDLLEXPORT Datum jobq_forget_job(PG_FUNCTION_ARGS) {
    if (TRIGGER_FIRED_BY_TRUNCATE(trigger_data(fcinfo)->tg_event)) {
        with_spi([] {
            delete_all_attempts();
            forget_all_dependencies();
            drop_all_kept_keys();
        });
        recount_at_commit();
        publish_finished_anywhere_at_commit();
        slots_freed_at_commit();
    } else {
        const TriggerData *trigger = job_trigger(fcinfo, TRIGGER_EVENT_DELETE, false);
        TupleDesc desc = RelationGetDescr(trigger->tg_relation);
        const JobRow row(trigger->tg_trigtuple, desc);
        count_deletes_at_commit(text_of(row, kJobQueue), status_of(row), 1);
        Datum id = row.get(kJobId);
        publish_finished_at_commit(DatumGetInt64(id));
        const SlotRow slots = slots_of(row);
        if (slots.queue_slot != 0) slot_freed_at_commit(slots.queue, {}, slots.queue_slot);
        if (slots.key_slot != 0) slot_freed_at_commit(slots.queue, slots.key, slots.key_slot);
        if (row.has(kJobGroupActive)) publish_group_free(DatumGetInt64(row.get(kJobGroupActive)));
        with_spi([&] {
            delete_attempts(&id, 1);
            forget_row_dependencies(row);
        });
    }
    return PointerGetDatum(nullptr);
}

}  // extern "C"

}  // namespace jobq
