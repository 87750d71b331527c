// See life.h.
#include "core/life.h"

#include "core/retry.h"

#include <algorithm>

namespace jobq::core {

namespace {

// Sets the columns that depend only on the status. Releases the unique key of a finished job, but never makes a job
// take its unique key. Only certain events make a job take its key, because another job might already hold the same key
// if a row bypassed the triggers.
void follow_status(Life *life, Micros now) {
    const bool runs = life->status == JobStatus::Processing, finished = is_finished(life->status);
    life->ready = life->status == JobStatus::Pending;
    if (life->status != JobStatus::Blocked) life->group_waiting.reset();
    if (!runs) {
        life->lease.reset();
        life->rescue_indexed = false;
        life->queue_slot.reset();
        life->key_slot.reset();
        life->kind_slot.reset();
        life->limit_slot1.reset();
        life->limit_slot2.reset();
        if (!awaits(*life)) life->must_end_at.reset();
    }
    // A job expires only while it waits for its first attempt. So the first claim ends the expiry permanently, even if
    // the worker then releases the job or is lost.
    if (!is_waiting(life->status)) life->expires_at.reset();
    life->due = life->status == JobStatus::Scheduled || (awaits(*life) && *life->must_end_at != kForever);
    if (finished) {
        if (!life->finished_at) life->finished_at = now;
        if (!halts_group(*life)) life->group_active.reset();
        life->holds_key = false;
    } else {
        life->finished_at.reset();
        if (!runs) life->cancel_requested_at.reset();
    }
}

void wait_until(Life *life, Micros run_at, Micros now) {
    life->run_at = run_at;
    life->status = waiting_status(run_at, now);
}

// Returns whether the job has saved steps. The steps of a copy that jobq_fork has made count only after its first
// claim, because until then, no worker has spent time on the copy.
bool has_progress(const Life &life) { return life.steps && life.started_at; }

// Ends the job's turn as the head of its group if the job has failed, unless its group halts.
void pass_on(Life *life, bool halts) {
    if (life->status == JobStatus::Failed && !halts) life->group_active.reset();
}

bool waits_for_group(const Life &life) { return life.group && !life.group_active; }

void claim(Life *life, const Event &event) {
    life->status = JobStatus::Processing;
    life->attempts = next_attempt(life->attempts);
    life->started_at = life->last_heartbeat = event.now;
    life->lease = event.lease;
    // Stores NULL instead of the usual timeout, which saves 16 bytes in each version of the row.
    life->lease_timeout = event.timeout == kUsualLease ? OptInt64() : OptInt64(event.timeout);
    life->must_end_at = event.max_runtime > 0 ? OptInt64(saturating_add(event.now, event.max_runtime)) : OptInt64();
    life->rescue_indexed = event.rescue_indexed;
    life->cancel_requested_at.reset();
    life->queue_slot = event.queue_slot;
    life->key_slot = event.key_slot;
    life->kind_slot = event.kind_slot;
    life->limit_slot1 = event.limit_slot1;
    life->limit_slot2 = event.limit_slot2;
    if (event.slot_seq) life->slot_seq = event.slot_seq;
}

void give_slots(Life *life, const Event &event) {
    if (event.queue_slot) life->queue_slot = event.queue_slot;
    if (event.key_slot) life->key_slot = event.key_slot;
    if (event.kind_slot) life->kind_slot = event.kind_slot;
    if (event.limit_slot1) life->limit_slot1 = event.limit_slot1;
    if (event.limit_slot2) life->limit_slot2 = event.limit_slot2;
    // slot_seq must not decrease, because the job might already hold another slot that requires a higher slot_seq.
    if (event.slot_seq) life->slot_seq = std::max(life->slot_seq.value_or(INT64_MIN), *event.slot_seq);
}

void complete(Life *life, const Event &event) {
    life->status = JobStatus::Completed;
    // Stores the lease in completed_lease, so that a late heartbeat can be recognized as coming from the worker that
    // has completed the job. Stores the lease of the report instead of the job's lease, so that `jobq audit` can check
    // in the WAL that they were equal.
    life->completed_lease = event.lease;
    life->has_result = false;
}

// Ends the attempt as failed. The job is retried after a delay if `status` is Scheduled.
void fail(Life *life, JobStatus status, const Event &event) {
    life->status = status;
    if (status == JobStatus::Scheduled) wait_until(life, saturating_add(event.now, event.delay), event.now);
    pass_on(life, event.halts_group);
}

void release(Life *life, const Event &event) {
    life->attempts = std::max(life->attempts - 1, 0);
    wait_until(life, event.delay > 0 ? saturating_add(event.now, event.delay) : life->run_at, event.now);
    if (life->cancel_requested_at) life->status = JobStatus::Cancelled;
}

// Saves a step. Attempts that were lost before this step no longer count as lost, because the job has made progress
// since.
void save_step(Life *life, const Event &event) {
    life->last_heartbeat = event.now;
    life->lost_attempts = 0;
    life->company_lease.reset();
    life->steps = event.last_step;
}

void wait(Life *life, const Event &event) {
    save_step(life, event);
    life->attempts = std::max(life->attempts - 1, 0);
    if (life->cancel_requested_at) {
        life->status = JobStatus::Cancelled;
    } else if (event.sleeps) {
        wait_until(life, event.run_at, event.now);
    } else {
        life->status = JobStatus::Blocked;
        life->must_end_at = event.deadline.value_or(kForever);
        // Sets run_at, because the promotion of due jobs finds the job by its run_at when the wait times out.
        if (event.deadline) life->run_at = *event.deadline;
    }
}

void lose(Life *life, const Event &event) {
    // Stores 0 if the job has no lease. This happens if the job's status was set to processing with plain SQL.
    if (event.in_company)
        life->company_lease = life->lease.value_or(0);
    else if (life->lost_attempts < kMaxAttempts)
        life->lost_attempts++;
    life->status = after_loss(life->attempts, life->max_attempts, life->lost_attempts, event.max_lost, event.in_company,
                              life->cancel_requested_at.has_value());
    pass_on(life, event.halts_group);
}

void cancel(Life *life, const Event &event) {
    if (!life->cancel_requested_at) life->cancel_requested_at = event.now;
    if (life->status == JobStatus::Processing) {
        life->rescue_indexed = true;
        return;
    }
    life->status = JobStatus::Cancelled;
    // The failed head of a halted group is kept from now on as long as any canceled job.
    life->finished_at.reset();
}

void block(Life *life) {
    life->status = JobStatus::Blocked;
    life->group_waiting.reset();
    // A job that waits for dependencies must not be the active job of its group, because a job on which it depends
    // might be a later job of the same group.
    life->group_active.reset();
}

// Unblocks a job whose dependencies are done. If the job has a group and is not the active job of the group, the job
// starts to wait for its turn in the group. Otherwise, the job becomes claimable as soon as it is due.
void unblock(Life *life, const Event &event) {
    if (waits_for_group(*life))
        life->group_waiting = life->group;
    else
        wait_until(life, life->run_at, event.now);
}

void become_group_head(Life *life, const Event &event) {
    life->group_active = life->group_waiting;
    wait_until(life, life->run_at, event.now);
}

// Restarts a job that has finished or is waiting for a retry. If event.last_step is set, the job keeps its saved steps
// up to that step. Otherwise, a completed job loses all its saved steps, and any other job keeps them.
void start_again(Life *life, Micros run_at, const Event &event) {
    if (event.last_step)
        life->steps = *event.last_step > 0 ? event.last_step : OptInt64();
    else if (life->status == JobStatus::Completed)
        life->steps.reset();
    // Clears the error of a job that never ran. This error is the reason why the job was canceled, and it no longer
    // applies.
    if (!life->started_at) life->has_error = false;
    life->has_result = false;
    life->lost_attempts = 0;
    life->company_lease.reset();
    life->holds_key = life->has_key;
    life->expires_at.reset();
    wait_until(life, run_at, event.now);
    // A job that waits for dependencies must not be the active job of its group: see block().
    if (event.waits) life->group_active.reset();
    if (event.waits || waits_for_group(*life)) life->status = JobStatus::Blocked;
    if (!event.waits && waits_for_group(*life)) life->group_waiting = life->group;
}

void retry(Life *life, const Event &event) {
    start_again(life, event.run_at, event);
    if (event.max_attempts > 0) life->max_attempts = event.max_attempts;
    life->max_attempts = std::max(life->max_attempts, std::min(life->attempts, INT32_MAX - 1) + 1);
}

void start_over(Life *life, const Event &event) {
    start_again(life, event.run_at, event);
    life->attempts = 0;
}

// Makes the job look as if it had just been enqueued, except that it keeps its id.
void replace(Life *life, const Event &event) {
    if (life->status == JobStatus::Blocked)
        life->run_at = event.run_at;
    else
        wait_until(life, event.run_at, event.now);
    life->max_attempts = event.max_attempts;
    life->attempts = life->lost_attempts = 0;
    life->company_lease.reset();
    life->started_at.reset();
    life->last_heartbeat.reset();
    life->lease_timeout.reset();
    life->has_error = false;
    life->expires_at = event.expires_at;
}

void take_key(Life *life) {
    // Also clears has_key, so that the job does not take the key again when it is retried.
    if (life->status == JobStatus::Processing || life->steps) life->has_key = false;
    life->holds_key = false;
}

void move(Life *life, const Event &event) {
    life->group = event.group;
    if (life->group_waiting) life->group_waiting = event.group;
}

void happen(Life *life, const Event &event) {
    const bool asked = life->cancel_requested_at.has_value();
    switch (event.kind) {
        case EventKind::Claimed:
            return claim(life, event);
        case EventKind::RescueIndexed:
            life->rescue_indexed = true;
            return;
        case EventKind::SlotsGiven:
            return give_slots(life, event);
        case EventKind::InCompany:
            life->company_lease = life->lease;
            return;
        case EventKind::Heartbeat:
            life->last_heartbeat = event.now;
            return;
        case EventKind::Completed:
            return complete(life, event);
        case EventKind::Failed:
            return fail(life, after_failure(life->attempts, life->max_attempts, event.wants_retry, asked), event);
        case EventKind::Released:
            return release(life, event);
        case EventKind::StepSaved:
            return save_step(life, event);
        case EventKind::Waited:
            return wait(life, event);
        case EventKind::Lost:
            return lose(life, event);
        case EventKind::Overran:
            return fail(life, after_overrun(life->attempts, life->max_attempts, event.on_max_runtime, asked), event);
        case EventKind::CancelForced:
        case EventKind::Dropped:
        case EventKind::Expired:
            life->status = JobStatus::Cancelled;
            return;
        case EventKind::Cancelled:
            return cancel(life, event);
        case EventKind::Due:
            life->status = JobStatus::Pending;
            return;
        case EventKind::Blocked:
        case EventKind::LeftLine:
            return block(life);
        case EventKind::DependenciesDone:
            return unblock(life, event);
        case EventKind::BecameGroupHead:
            return become_group_head(life, event);
        case EventKind::WaitOver:
            // Limits run_at to the current time, so that this job, which has already started, is not claimed after jobs
            // that have not started.
            life->run_at = std::min(life->run_at, event.now);
            life->status = JobStatus::Pending;
            return;
        case EventKind::Rescheduled:
            return wait_until(life, event.run_at, event.now);
        case EventKind::Retried:
            return retry(life, event);
        case EventKind::StartedOver:
            return start_over(life, event);
        case EventKind::Replaced:
            return replace(life, event);
        case EventKind::KeyTaken:
            return take_key(life);
        case EventKind::Moved:
            return move(life, event);
        case EventKind::PassedOver:
            life->group_active.reset();
            // The job was the head of a halted group, which no duty deletes. Its retention period begins only now.
            life->finished_at.reset();
            return;
    }
}

}  // namespace

std::uint32_t differing(const Life &a, const Life &b) noexcept {
    std::uint32_t mask = 0;
#define JOBQ_COMPARE(name, member, type) \
    if (a.member != b.member) mask |= 1U << kLife##name;
    JOBQ_LIFE_COLUMNS(JOBQ_COMPARE)
#undef JOBQ_COMPARE
    return mask;
}

bool applies(EventKind kind, const Life &before) noexcept {
    const JobStatus status = before.status;
    switch (kind) {
        case EventKind::Claimed:
            return status == JobStatus::Pending;
        case EventKind::RescueIndexed:
        case EventKind::SlotsGiven:
        case EventKind::InCompany:
        case EventKind::Heartbeat:
        case EventKind::Completed:
        case EventKind::Failed:
        case EventKind::Released:
        case EventKind::StepSaved:
        case EventKind::Waited:
        case EventKind::Lost:
        case EventKind::Overran:
        case EventKind::CancelForced:
            return status == JobStatus::Processing;
        case EventKind::Cancelled:
            return !is_finished(status) || halts_group(before);
        case EventKind::Dropped:
            // A job that waits for dependencies can be dropped when one of them fails. This includes a job that has
            // already started: such a job waits for dependencies only if an operator has blocked it again.
            if (status == JobStatus::Blocked) return !before.group_waiting && !awaits(before);
            return status == JobStatus::Pending && !has_progress(before);
        case EventKind::Expired:
            return is_waiting(status) && before.expires_at;
        case EventKind::Due:
            return status == JobStatus::Scheduled || awaits(before);
        case EventKind::Blocked:
            if (has_progress(before)) return false;
            [[fallthrough]];
        case EventKind::Rescheduled:
            return status == JobStatus::Pending || status == JobStatus::Scheduled;
        case EventKind::LeftLine:
        case EventKind::BecameGroupHead:
            return status == JobStatus::Blocked && before.group_waiting;
        case EventKind::DependenciesDone:
            return status == JobStatus::Blocked && !before.group_waiting && !awaits(before);
        case EventKind::WaitOver:
            return awaits(before);
        case EventKind::Retried:
        case EventKind::StartedOver:
            return is_finished(status) || status == JobStatus::Scheduled;
        case EventKind::Replaced:
            return is_waiting(status) && !before.steps;
        case EventKind::KeyTaken:
        case EventKind::Moved:
            return true;
        case EventKind::PassedOver:
            return halts_group(before);
    }
    return false;
}

Life after_event(const Life &before, const Event &event) noexcept {
    if (!applies(event.kind, before)) return before;
    Life after = before;
    happen(&after, event);
    after.cause = Cause{event.kind, event.now};
    follow_status(&after, event.now);
    return after;
}

Life enqueued(const Life &before, Micros run_at, bool waits, Micros now) noexcept {
    Life life = before;
    wait_until(&life, run_at, now);
    life.holds_key = life.has_key;
    if (waits || waits_for_group(life)) life.status = JobStatus::Blocked;
    if (!waits && waits_for_group(life)) life.group_waiting = life.group;
    follow_status(&life, now);
    return life;
}

Life changed_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept {
    Life life = written;
    life.group_waiting = facts.place == GroupPlace::Waiting ? life.group : OptInt64();
    life.group_active = facts.place == GroupPlace::Active ? life.group : OptInt64();
    const bool can_start = life.status == JobStatus::Pending || life.status == JobStatus::Scheduled ||
                           (life.status == JobStatus::Blocked && facts.has_left);
    if (life.group_waiting)
        life.status = JobStatus::Blocked;
    else if (can_start)
        wait_until(&life, life.run_at, now);
    life.holds_key = life.has_key;
    if (life.status != JobStatus::Completed) life.has_result = false;
    if (facts.ends_halt) life.finished_at.reset();
    // Clears must_end_at if the job was running. For a running job, this column is the time until which the job may
    // run, but for a blocked job, it would be the end of a wait.
    if (life.lease || life.rescue_indexed) life.must_end_at.reset();
    if (life.status == JobStatus::Processing) {
        // Sets a timeout for a job without a lease, so that it cannot run forever. A job with a lease keeps the timeout
        // that its claim has set. If the claim has set none, kUsualLease applies.
        life.rescue_indexed = true;
        if (!life.last_heartbeat) life.last_heartbeat = now;
        const bool endless = life.lease_timeout == kEndlessLease;
        if ((!life.lease_timeout || endless) && !life.lease) life.lease_timeout = facts.timeout;
        const Micros start = life.started_at.value_or(*life.last_heartbeat);
        life.must_end_at = facts.keeps_end         ? facts.end
                           : facts.max_runtime > 0 ? OptInt64(saturating_add(start, facts.max_runtime))
                                                   : OptInt64();
    }
    follow_status(&life, now);
    return life;
}

Life inserted_by_hand(const Life &written, const ByHand &facts, Micros now) noexcept {
    Life life = changed_by_hand(written, facts, now);
    if (life.status == JobStatus::Processing && written.must_end_at) life.must_end_at = written.must_end_at;
    // Clears the slots, because only claims and the background worker know which slots are free and are allowed to
    // assign them.
    forget_slots(&life);
    return life;
}

void forget_slots(Life *life) noexcept {
    life->queue_slot = life->key_slot = life->kind_slot = life->limit_slot1 = life->limit_slot2 = life->slot_seq = {};
}

Micros deadline_of(const Life &life) noexcept {
    // The last heartbeat is unknown, so the lease expires immediately.
    if (!life.last_heartbeat) return INT64_MIN;
    // Only a check by the rescue shows whether the process that holds an endless lease still exists, so a check is due
    // immediately.
    if (life.lease && life.lease_timeout == kEndlessLease) return INT64_MIN;
    const Micros lost = saturating_add(*life.last_heartbeat, life.lease_timeout.value_or(kUsualLease));
    return life.must_end_at ? std::min(lost, *life.must_end_at) : lost;
}

}  // namespace jobq::core
