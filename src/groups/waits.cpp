// See waits.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "edges/awaited_jobs.h"
#include "edges/edges.h"
#include "groups/awaiting.h"
#include "groups/deadlock.h"
#include "groups/job_ends.h"
#include "groups/waits.h"
#include "job/change_job.h"
#include "steps/steps.h"

#include <algorithm>

namespace jobq {

namespace {

// Of what a job awaits: whether it is there.
#define HAS_COME                                                                                \
    "(EXISTS (SELECT FROM jobq.job_signals g WHERE g.job_id = s.job_id AND g.event = s.event) " \
    "OR EXISTS (SELECT FROM jobq.signals g WHERE g.queue = j.queue COLLATE \"C\" AND g.event = s.event))"

Statement find_signalled = {
    R"(SELECT DISTINCT u.id
       FROM unnest($1) AS u(id),
            LATERAL (SELECT s.job_id, s.event FROM jobq.steps s WHERE s.job_id = u.id AND s._awaited IS NOT NULL) s,
            LATERAL (SELECT j.queue FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" AWAITS_SOMETHING R"() j
       WHERE )" HAS_COME,
    {INT8ARRAYOID}};

// From a job on, so that those who have been set free and have not looked yet are passed once.
Statement find_awaiting = {
    R"(SELECT s.job_id FROM jobq.steps s WHERE s._awaited = $1 AND s.job_id >= $2 ORDER BY s.job_id LIMIT $3)",
    {INT8OID, INT8OID, INT8OID}};

Statement find_next = {
    "SELECT s.job_id FROM jobq.steps s WHERE s._awaited IS NOT NULL AND s.job_id > $1 ORDER BY s.job_id LIMIT $2",
    {INT8OID, INT8OID}};

Statement lock_those_awaiting = {
    R"(SELECT j.id FROM unnest($1) AS u(id),
            LATERAL (SELECT j.id FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" AWAITS_SOMETHING R"(
                     FOR NO KEY UPDATE SKIP LOCKED) j)",
    {INT8ARRAYOID}};

// Sets those free that nobody holds; a job may be among them more than once.
void free_jobs(Datum *ids, int count, Unblocking *done) {
    std::sort(ids, ids + count);
    count = static_cast<int>(std::unique(ids, ids + count) - ids);
    count = lock_awaiting(ids, nullptr, count);
    const core::Event event = {core::EventKind::WaitOver, Max(done->now, GetCurrentTimestamp())};
    change_all_or_each(
        count, [&](int first, int n) { let_happen(ids + first, n, event); }, [&](int) { done->outcome.done++; },
        [&](int i, const FailureText &failure) { leave_out(&done->outcome, DatumGetInt64(ids[i]), failure); });
}

// One of a ring is set free at a time: all at once could begin to wait again at once.
void break_ring(Datum *jobs, int count, Notes<Datum> *over) {
    const Rows rings = find_rings(jobs, count);
    for (uint64 i = 0; i < rings.size(); i++) {
        if (i == 0)
            over->add(rings[i].get(1));
        else
            look_again({rings[i].int64_at(1), kFromTheFirst, Blocker::Wait});
    }
}

// Sets those free whose wait may be over.
void look_at_jobs(Datum *jobs, int count, Unblocking *done) {
    if (count == 0) return;
    const Rows signalled = run(find_signalled, Params().add(array_of(jobs, count, INT8OID)));
    Notes<Datum> over = {};
    for (uint64 i = 0; i < signalled.size(); i++) over.add(signalled[i].get(1));
    if (any_active(EdgeKind::Awaits)) {
        find_ended_waits(jobs, count, &over);
        break_ring(jobs, count, &over);
    }
    free_jobs(over.items, over.count, done);
}

int job_ids(const Rows &rows, Datum *ids) {
    int count = 0;
    for (uint64 i = 0; i < rows.size(); i++)
        if (i == 0 || rows[i].int64_at(1) != rows[i - 1].int64_at(1)) ids[count++] = rows[i].get(1);
    return count;
}

void look_at_event(const Unblocked &told, Unblocking *done) {
    const Rows rows =
        run(find_awaiting,
            Params().add(Int64GetDatum(-told.key)).add(Int64GetDatum(told.job)).add(Int64GetDatum(kWaitsAtOnce)));
    auto *jobs = room_for<Datum>(rows.size());
    look_at_jobs(jobs, job_ids(rows, jobs), done);
    if (rows.size() == static_cast<uint64>(kWaitsAtOnce))
        log_unblocked(Blocker::Wait, told.key, rows[rows.size() - 1].int64_at(1) + 1);
}

}  // namespace

int lock_awaiting(Datum *ids, Datum *others, int count) {
    if (count == 0) return 0;
    const Rows locked = run(lock_those_awaiting, Params().add(array_of(ids, count, INT8OID)));
    int left = 0;
    for (int i = 0; i < count; i++) {
        const int64 id = DatumGetInt64(ids[i]);
        if (static_cast<uint64>(left) == locked.size() || locked[left].int64_at(1) != id) {
            look_again({id, kFromTheFirst, Blocker::Wait});
            continue;
        }
        if (others != nullptr) others[left] = others[i];
        ids[left++] = ids[i];
    }
    return left;
}

void look_at_waits(const Unblocked *told, int count, Unblocking *done) {
    if (!any_step()) return;
    Notes<Datum> jobs = {};
    for (int i = 0; i < count; i++) {
        if (told[i].key < 0)
            look_at_event(told[i], done);
        else
            jobs.add(Int64GetDatum(told[i].key));
    }
    if (any_active(EdgeKind::Awaits)) find_waiters(told, count, &jobs);
    look_at_jobs(jobs.items, jobs.count, done);
}

bool search_waits(SearchPlace *place, int limit, Unblocking *done) {
    if (!any_step()) {
        forget_awaited_jobs(Audience::Waiters);
        return false;
    }
    if (place->behind == PG_INT64_MIN) place->began = begin_awaiting_anew();
    const Rows rows = run(find_next, Params().add(Int64GetDatum(place->behind)).add(Int64GetDatum(limit)));
    auto *jobs = room_for<Datum>(rows.size());
    const int count = job_ids(rows, jobs);
    if (count > 0) place->behind = DatumGetInt64(jobs[count - 1]);
    look_at_jobs(jobs, count, done);
    const bool more = rows.size() == static_cast<uint64>(limit);
    if (!more) end_awaiting_anew(Audience::Waiters, place->began);
    return more;
}

}  // namespace jobq
