// See claim.h. The claim: look at the heads of the matching lanes, lock, mark.
//
// Two statements, never one: an UPDATE that joins a locking sub-select sees the rows under one snapshot and silently
// drops a row whose newest version is younger than it; a LIMIT ... FOR UPDATE inside IN (...) may be executed again
// and lock more rows than the limit (PostgreSQL bug 15715). The lock returns the newest version and its ctid; the
// mark finds it there, since nobody can change a row that we hold.
#include "pg/pg.h"

#include "core/interval.h"
#include "pg/args.h"
#include "shared/counting.h"
#include "shared/publish.h"
#include "store/claim.h"
#include "store/rows.h"

extern "C" {
#include "storage/itemptr.h"
}

namespace jobq {

namespace {

#define CLAIM_COLUMNS                                                                                               \
    "j.ctid, j.id, j.queue, j.kind, j.payload, j.attempts, j.max_attempts, j.priority::int4, j.version, j.run_at, " \
    "j.created_at, j.progress, j.metadata, j.heartbeat_timeout"

// One lane: its index range is the order of the queue. status is looked at again, because with triggers disabled
// somebody's UPDATE may have left ready_at behind.
Statement lock_in_lane = {"SELECT " CLAIM_COLUMNS
                          R"( FROM jobq.jobs j
        WHERE j.lane = $1 AND j.ready_at IS NOT NULL AND j.status = 'pending'
        ORDER BY j.priority, j.ready_at, j.id
        LIMIT $2
        FOR NO KEY UPDATE SKIP LOCKED)",
                          {INT8OID, INT8OID}};

// Several lanes: the first keys of each after ($2, $3, $4), merged.
Statement peek_lanes = {
    R"(SELECT h.priority, h.ready_at, h.id
       FROM unnest($1) AS l(lane),
            LATERAL (SELECT j.priority, j.ready_at, j.id FROM jobq.jobs j
                     WHERE j.lane = l.lane AND j.ready_at IS NOT NULL AND (j.priority, j.ready_at, j.id) > ($2, $3, $4)
                     ORDER BY j.priority, j.ready_at, j.id
                     LIMIT $5) h
       ORDER BY 1, 2, 3
       LIMIT $5)",
    {INT8ARRAYOID, INT2OID, TIMESTAMPTZOID, INT8OID, INT8OID}};

// The outer LIMIT pulls rows one by one, so nothing beyond it is locked. status, not ready_at: only the primary key
// fits this condition, whatever the statistics say.
Statement lock_ids = {"SELECT " CLAIM_COLUMNS
                      R"( FROM unnest($1) AS u(id),
             LATERAL (SELECT j.ctid, j.* FROM jobq.jobs j
                      WHERE j.id = u.id AND j.status = 'pending' AND j.lane = ANY ($2)
                      FOR NO KEY UPDATE SKIP LOCKED) j
        LIMIT $3)",
                      {INT8ARRAYOID, INT8ARRAYOID, INT8OID}};

#define MARK_CLAIMED                                                                                           \
    "SET status = 'processing', ready_at = NULL, attempts = j.attempts + 1, worker_id = $4, started_at = $5, " \
    "last_heartbeat = $5, "                                                                                    \
    "claim_xid = pg_current_xact_id(), watched = true, finished_at = NULL, cancel_requested_at = NULL, "

Statement mark_one = {"UPDATE jobq.jobs j " MARK_CLAIMED "lease = $2, lease_timeout = $3 WHERE j.ctid = $1",
                      {TIDOID, INT8OID, INTERVALOID, TEXTOID, TIMESTAMPTZOID}};

Statement mark_many = {"UPDATE jobq.jobs j " MARK_CLAIMED
                       "lease = c.lease, lease_timeout = c.timeout "
                       "FROM unnest($1, $2, $3) AS c(tid, lease, timeout) WHERE j.ctid = c.tid",
                       {TIDARRAYOID, INT8ARRAYOID, INTERVALARRAYOID, TEXTOID, TIMESTAMPTZOID}};

int64 new_lease() {
    uint64 random;
    if (!pg_strong_random(&random, sizeof(random)))
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate a random lease")));
    return core::lease_from_random(random);
}

int append(const Rows &rows, ClaimedJob *claimed, int count) {
    for (uint64 i = 0; i < rows.size(); i++) claimed[count++].row = rows[i];
    return count;
}

int lock_one_lane(int64 lane, int wanted, ClaimedJob *claimed) {
    return append(run(lock_in_lane, Params().add(Int64GetDatum(lane)).add(Int64GetDatum(wanted))), claimed, 0);
}

// Peeks at as many keys as are wanted, locks those that nobody else holds, and goes on behind the last key it saw.
// A single claimer gets exactly the first jobs across all lanes, in one round. When others hold the heads, each round
// looks twice as far.
int lock_across_lanes(Datum *lanes, int lane_count, int wanted, ClaimedJob *claimed) {
    const Datum lane_array = array_of(lanes, lane_count, INT8OID);
    Datum after_priority = Int16GetDatum(PG_INT16_MIN);
    Datum after_ready_at = TimestampTzGetDatum(DT_NOBEGIN);
    Datum after_id = Int64GetDatum(PG_INT64_MIN);
    int count = 0;
    for (int64 extra = 0; count < wanted; extra = extra * 2 + 16) {
        const int64 window = wanted - count + extra;
        const Rows heads = run(
            peek_lanes,
            Params().add(lane_array).add(after_priority).add(after_ready_at).add(after_id).add(Int64GetDatum(window)));
        if (heads.size() == 0) break;
        auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * heads.size()));
        for (uint64 i = 0; i < heads.size(); i++) ids[i] = heads[i].get(3);
        count = append(run(lock_ids, Params()
                                         .add(array_of(ids, static_cast<int>(heads.size()), INT8OID))
                                         .add(lane_array)
                                         .add(Int64GetDatum(wanted - count))),
                       claimed, count);
        if (static_cast<int64>(heads.size()) < window) break;
        const Row last = heads[heads.size() - 1];
        after_priority = last.get(1);
        after_ready_at = last.get(2);
        after_id = last.get(3);
    }
    return count;
}

int lock_jobs(const ClaimRequest &request, const Queue &queue, ClaimedJob *claimed) {
    auto *lanes = static_cast<Datum *>(palloc(sizeof(Datum) * Max(queue.lane_count, 1)));
    int lane_count = 0;
    for (int i = 0; i < queue.lane_count; i++) {
        const Lane &lane = queue.lanes[i];
        if (core::lane_matches(request.filter, lane.kind, lane.version, lane.required, lane.required_count))
            lanes[lane_count++] = Int64GetDatum(lane.id);
    }
    if (lane_count == 0) return 0;
    if (lane_count == 1) return lock_one_lane(DatumGetInt64(lanes[0]), request.batch, claimed);
    return lock_across_lanes(lanes, lane_count, request.batch, claimed);
}

core::Micros timeout_of(const ClaimRequest &request, const Queue &queue, const Row &row) {
    if (request.heartbeat_timeout > 0) return request.heartbeat_timeout;
    if (row.is_null(kClaimHeartbeatTimeout)) return queue.heartbeat_timeout;
    // Whatever an UPDATE by hand left there must not stop the queue.
    const Interval *own = DatumGetIntervalP(row.get(kClaimHeartbeatTimeout));
    const core::Micros span = core::span_micros(own->month, own->day, own->time);
    return Min(Max(span, core::kMinHeartbeatTimeout), core::kMaxHeartbeatTimeout);
}

void mark_claimed(const ClaimRequest &request, TimestampTz now, const ClaimedJob *claimed, int count) {
    auto *tids = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *leases = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *timeouts = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    for (int i = 0; i < count; i++) {
        tids[i] = claimed[i].row.get(kClaimTid);
        leases[i] = Int64GetDatum(claimed[i].lease);
        timeouts[i] = IntervalPGetDatum(make_interval(claimed[i].timeout));
    }
    const bool one = count == 1;
    run(one ? mark_one : mark_many, Params()
                                        .add(one ? tids[0] : array_of(tids, count, TIDOID))
                                        .add(one ? leases[0] : array_of(leases, count, INT8OID))
                                        .add(one ? timeouts[0] : array_of(timeouts, count, INTERVALOID))
                                        .add(PointerGetDatum(request.worker_id))
                                        .add(TimestampTzGetDatum(now)));
    require_affected(count);
}

// A snapshot older than the job is the usual fate of a claim in REPEATABLE READ.
void add_serialization_hint(void *) {
    if (geterrcode() == ERRCODE_T_R_SERIALIZATION_FAILURE)
        errhint("Claim in a READ COMMITTED transaction, or begin the transaction with the claim and retry it.");
}

}  // namespace

int claim_jobs(const ClaimRequest &request, const Queue &queue, TimestampTz now, ClaimedJob *claimed) {
    ErrorContextCallback context = {error_context_stack, add_serialization_hint, nullptr};
    error_context_stack = &context;
    const int count = lock_jobs(request, queue, claimed);
    core::Micros earliest = core::kLatest;
    for (int i = 0; i < count; i++) {
        claimed[i].lease = new_lease();
        claimed[i].timeout = timeout_of(request, queue, claimed[i].row);
        earliest = Min(earliest, claimed[i].timeout);
    }
    if (count > 0) {
        mark_claimed(request, now, claimed, count);
        count_at_commit(claimed[0].row.text_at(kClaimQueue), core::JobStatus::Pending, core::JobStatus::Processing,
                        count);
        publish_due_at_commit(core::saturating_add(now, earliest));
    }
    error_context_stack = context.previous;
    return count;
}

}  // namespace jobq
