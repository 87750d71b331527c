// See take_job.h.
#include "compat/pg.h"

#include "claim/recent_claims.h"
#include "claim/take_job.h"
#include "compat/args.h"
#include "job/change_job.h"
#include "job/transaction_log.h"
#include "leases/rescue_index.h"
#include "leases/suspects.h"
#include "leases/young_leases.h"

extern "C" {
#include "common/pg_prng.h"
}

namespace jobq {

namespace {

// From the generator that the server seeds with strong randomness at the start of each process: it must not repeat, but
// it is no secret. Asking the operating system for each lease would cost a tenth of the claim.
int64 new_lease() { return core::lease_from_random(pg_prng_uint64(&pg_global_prng_state)); }

core::Micros timeout_of(const Claim &claim) {
    if (claim.request.heartbeat_timeout > 0) return claim.request.heartbeat_timeout;
    bool none;
    const Datum value = job_value(claim.jobs, kJobHeartbeatTimeout, &none);
    if (none) return claim.queue.heartbeat_timeout;
    // Whatever an UPDATE by hand left there must not stop the queue.
    return core::bounded(core::kHeartbeatTimeout, span_of(DatumGetIntervalP(value)));
}

// 0: as long as it likes.
core::Micros max_runtime_of(const Claim &claim) {
    bool none;
    const Datum value = job_value(claim.jobs, kJobMaxRuntime, &none);
    if (none) return claim.queue.max_runtime;
    return core::bounded(core::kMaxRuntime, span_of(DatumGetIntervalP(value)));
}

// The mark that a young lease spares comes from another transaction a second later, which no snapshot of REPEATABLE
// READ that was taken before can get past: then the job could not be reported on under it.
bool is_to_be_marked(const Claim &claim) {
    return claim.request.written_once || IsolationUsesXactSnapshot() || DefaultXactIsoLevel >= XACT_REPEATABLE_READ;
}

// Writes the claim into the row. *unattended: for how long nobody need look at it. `rescue_indexed`: the rescue's index
// has it at once. False: another claim was first.
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
    remember_place(*jobs, before.id);
    return true;
}

// A job that has lost a worker before is the only one of its claim; the claim ends before one that comes later, since
// the order is to be kept. A worker that holds another is not given one: see passes_over().
bool may_take_suspect_now(Claim *claim) {
    if (row_is_changing(claim->jobs.table)) return false;
    if (claim->count == 0) return claim->suspects == Suspects::OneAlone;
    claim->closed = true;
    return false;
}

// Asks before the first job whether the settings have changed since the claim read them, for example while it waited
// for the lock on jobq.jobs; then it takes no job. The transaction gets its number before the question is asked,
// because a changed limit waits for the transactions with lower numbers (settle_slots): a claim with a higher number
// obeys it.
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
    if (!is_suspect(claim->jobs)) return false;
    if (claim->suspects == Suspects::Unasked && claim->count == 0 && !row_is_changing(claim->jobs.table))
        claim->suspects = may_take_suspect(claim->request.worker_id) ? Suspects::OneAlone : Suspects::PassedOver;
    return claim->suspects == Suspects::PassedOver;
}

bool take_job(Claim *claim) {
    // The status is asked for since, with triggers disabled, somebody's UPDATE may have left run_at behind.
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
    claim->closed |= suspect;
    claim->sink->take(job);
    return true;
}

Room take_limited_job(Claim *claim) {
    // Permits cost far more than to see that another claim was first.
    if (row_is_changing(claim->jobs.table) || !has_current_settings(claim)) return Room::Yes;
    const Room room = take_permits(claim->limiter);
    if (room == Room::Yes && !take_job(claim)) return_permits(claim->limiter);
    claim->closed |= room == Room::NotForQueue;
    return room;
}

}  // namespace jobq
