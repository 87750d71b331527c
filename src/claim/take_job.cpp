// See take_job.h.
#include "compat/pg.h"

#include "claim/recent_claims.h"
#include "claim/take_job.h"
#include "compat/args.h"
#include "job/change_job.h"
#include "leases/rescue_index.h"
#include "leases/suspects.h"
#include "leases/young_leases.h"
#include "log/transaction_log.h"

extern "C" {
#include "common/pg_prng.h"
}

namespace jobq {

namespace {

// Returns a random lease number. The number must not repeat, but it is not secret, so it comes from PostgreSQL's
// generator, which each process seeds with strong randomness when it starts. Strong random numbers from the operating
// system would take a tenth of the claim's time.
int64 new_lease() { return core::lease_from_random(pg_prng_uint64(&pg_global_prng_state)); }

// Returns the settings that apply to the job in table.row.
const core::QueueSettings &settings_of(const Claim &claim) {
    if (claim.queue.kind_count == 0) return claim.queue;
    return find_kind(claim.queue, view(DatumGetTextPP(job_value(claim.jobs, kJobKind))));
}

core::Micros timeout_of(const Claim &claim) {
    if (claim.request.heartbeat_timeout > 0) return claim.request.heartbeat_timeout;
    bool none;
    const Datum value = job_value(claim.jobs, kJobHeartbeatTimeout, &none);
    if (none) return settings_of(claim).heartbeat_timeout;
    // Bounds the value, because an invalid value that was set with plain SQL must not stop the queue.
    return core::bounded(core::kHeartbeatTimeout, span_of(DatumGetIntervalP(value)));
}

// Returns the maximum runtime of the job, or 0 if it is unlimited.
core::Micros max_runtime_of(const Claim &claim) {
    bool none;
    const Datum value = job_value(claim.jobs, kJobMaxRuntime, &none);
    if (none) return settings_of(claim).max_runtime;
    return core::bounded(core::kMaxRuntime, span_of(DatumGetIntervalP(value)));
}

// Returns whether the claim itself must add the job to the rescue index. If not, another transaction adds the job about
// a second later by updating the row (leases/young_leases.h). After this update, a transaction in REPEATABLE READ with
// an older snapshot could not change the row, for example to complete the job.
bool is_to_be_marked(const Claim &claim) {
    return claim.request.written_once || IsolationUsesXactSnapshot() || DefaultXactIsoLevel >= XACT_REPEATABLE_READ;
}

// Writes the claim into the row. Sets *unattended to the duration for which the rescue need not check the job.
// `rescue_indexed` means that the job is added to the rescue index immediately. Returns false if another claim has
// taken the job first.
bool mark_claimed(Claim *claim, int64 lease, core::Micros timeout, bool rescue_indexed, core::Micros *unattended) {
    JobsTable *jobs = &claim->jobs;
    const JobState before = state_of(*jobs);
    core::Event event = {core::EventKind::Claimed, claim->now};
    event.lease = lease;
    event.timeout = timeout;
    event.max_runtime = max_runtime_of(*claim);
    *unattended = core::first_deadline(timeout, event.max_runtime);
    event.rescue_indexed =
        rescue_indexed || !enter_lease(before.id, lease, claim->worker_hash,
                                       core::saturating_add(claim->now, Min(*unattended, kUnindexed)));
    if (!event.rescue_indexed) index_before_prepare();
    if (claim->limiter != nullptr) enter_permits(*claim->limiter, &event);
    OtherColumns others = {};
    others.set(kJobWorkerId, PointerGetDatum(claim->request.worker_id)).set(kJobClaimXid, claim->xid);
    if (!write_life(jobs, before, core::after_event(before.life, event), others, nullptr, LockWaitSkip)) {
        drop_lease(before.id, lease);
        return false;
    }
    if (claim->limiter != nullptr) keep_permits(claim->limiter);
    remember_tid(*jobs, before.id);
    return true;
}

// Decides whether the claim is allowed to take a suspect, which is a job that has lost a worker before. A suspect must
// be the only job of its claim. To keep the order of jobs, a claim that already has jobs ends when it reaches a
// suspect. A worker that runs a suspect on trial does not get another suspect (see passes_over()).
bool may_take_suspect_now(Claim *claim) {
    if (row_is_changing(claim->jobs.table)) return false;
    if (claim->count == 0) return claim->suspects == Suspects::OneAlone;
    claim->closed = true;
    return false;
}

// Returns whether the queue's settings are unchanged since the claim read them. If they have changed, closes the claim.
// The settings might have changed, for example, while the claim waited for the lock on jobq.jobs. The check is made
// only before the first job. The transaction gets its ID before the check, because a session that changes a limit waits
// for all transactions with lower IDs (settle_slots), so a claim with a higher ID must already obey the new limit.
bool has_current_settings(Claim *claim) {
    if (claim->xid != Datum(0)) return true;
    const Datum xid = FullTransactionIdGetDatum(GetTopFullTransactionId());
    claim->outdated = !is_current(claim->queue);
    claim->closed |= claim->outdated;
    if (!claim->outdated) claim->xid = xid;
    return !claim->outdated;
}

}  // namespace

bool passes_over(Claim *claim) {
    if (!is_suspect(claim->jobs)) {
        claim->closed |= claim->only_suspect;
        return claim->only_suspect;
    }
    if (claim->suspects == Suspects::Unasked && claim->count == 0 && !row_is_changing(claim->jobs.table))
        claim->suspects = may_take_suspect(claim->request.worker_id) ? Suspects::OneAlone : Suspects::PassedOver;
    claim->passed_suspect |= claim->suspects == Suspects::PassedOver;
    return claim->suspects == Suspects::PassedOver;
}

bool take_job(Claim *claim) {
    // Checks the status, too, because after an UPDATE with triggers disabled, the claim index can contain a job that is
    // not pending.
    if (!has_status(claim->jobs, core::JobStatus::Pending)) return false;
    const bool suspect = is_suspect(claim->jobs);
    if (suspect && !may_take_suspect_now(claim)) return false;
    if (!reach_row_or_skip(&claim->jobs.table) || !has_current_settings(claim)) return false;
    if (claim->count == 0) log_claim(claim->name, claim->request.batch);
    remember_claim(DatumGetInt64(job_value(claim->jobs, kJobId)), claim->now);
    const ClaimedJob job = {&claim->jobs, new_lease(), timeout_of(*claim)};
    core::Micros unattended;
    const bool mark = suspect || is_to_be_marked(*claim);
    if (!mark_claimed(claim, job.lease, job.timeout, mark, &unattended)) return false;
    claim->earliest_timeout = Min(claim->earliest_timeout, unattended);
    claim->count++;
    claim->took_suspect |= suspect;
    claim->sink_is_full = !claim->sink->take(job);
    claim->closed |= suspect || claim->sink_is_full;
    return true;
}

Room take_limited_job(Claim *claim) {
    // First checks whether another claim has taken the job, because this costs far less than acquiring permits.
    if (row_is_changing(claim->jobs.table)) return Room::Yes;
    // If the jobs of the lane are known to have no room, does not assign a transaction ID only to find this out again.
    TimestampTz due = DT_NOEND;
    if (claim->xid == Datum(0) && waits_for_lane(claim->jobs, claim->name, claim->queue, claim->now, &due))
        return Room::NotForLane;
    if (!has_current_settings(claim)) return Room::Yes;
    const Room room = take_permits(claim->limiter);
    if (room == Room::Yes && !take_job(claim)) return_permits(claim->limiter);
    claim->closed |= room == Room::NotForQueue;
    return room;
}

}  // namespace jobq
