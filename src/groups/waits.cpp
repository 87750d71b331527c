// See waits.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "groups/waits.h"
#include "job/change_job.h"
#include "steps/steps.h"

namespace jobq {

namespace {

// Jobs set free in one transaction: the first shall not wait long for the last.
constexpr int kBatch = 1000;

// Of what a job awaits: whether it is there.
#define HAS_COME                                                                                \
    "(EXISTS (SELECT FROM jobq.job_signals g WHERE g.job_id = s.job_id AND g.event = s.event) " \
    "OR EXISTS (SELECT FROM jobq.signals g WHERE g.queue = j.queue COLLATE \"C\" AND g.event = s.event))"
// One that sleeps; not one that has been set free and has not looked yet.
#define AWAITING "j.status = 'blocked' AND j._must_end_at IS NOT NULL AND j._group_waiting IS NULL"

Statement find_those_told = {
    R"(SELECT DISTINCT u.id
       FROM unnest($1) AS u(id),
            LATERAL (SELECT s.job_id, s.event FROM jobq.steps s WHERE s.job_id = u.id AND s._awaited IS NOT NULL) s,
            LATERAL (SELECT j.queue FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" AWAITING R"() j
       WHERE )" HAS_COME,
    {INT8ARRAYOID}};

// From a job on, so that those who have been set free and have not looked yet are passed once.
Statement find_awaiting = {
    R"(SELECT s.job_id FROM jobq.steps s WHERE s._awaited = $1 AND s.job_id >= $2 ORDER BY s.job_id LIMIT $3)",
    {INT8OID, INT8OID, INT8OID}};

Statement find_next = {
    "SELECT s.job_id FROM jobq.steps s WHERE s._awaited IS NOT NULL AND s.job_id > $1 ORDER BY s.job_id LIMIT $2",
    {INT8OID, INT8OID}};

Statement lock_awaiting = {
    R"(SELECT j.id FROM unnest($1) AS u(id),
            LATERAL (SELECT j.id FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" AWAITING R"(
                     FOR NO KEY UPDATE SKIP LOCKED) j)",
    {INT8ARRAYOID}};

// Sets those free that nobody holds, and whose wait may be over. Those that somebody holds are looked at again.
void look_at_jobs(Datum *jobs, int count, Unblocking *done) {
    if (count == 0) return;
    const Rows come = run(find_those_told, Params().add(array_of(jobs, count, INT8OID)));
    auto *ids = room_for<Datum>(come.size());
    for (uint64 i = 0; i < come.size(); i++) ids[i] = come[i].get(1);
    if (come.size() == 0) return;
    const Rows locked = run(lock_awaiting, Params().add(array_of(ids, static_cast<int>(come.size()), INT8OID)));
    auto *free = room_for<Datum>(locked.size());
    uint64 next = 0;
    for (uint64 i = 0; i < come.size(); i++) {
        if (next < locked.size() && locked[next].int64_at(1) == DatumGetInt64(ids[i]))
            free[next++] = ids[i];
        else
            look_again({DatumGetInt64(ids[i]), kFromTheFirst, Blocker::Wait});
    }
    const core::Event event = {core::EventKind::WaitOver, Max(done->now, GetCurrentTimestamp())};
    change_all_or_each(
        static_cast<int>(locked.size()), [&](int first, int n) { let_happen(free + first, n, event); },
        [&](int) { done->outcome.done++; },
        [&](int i, const FailureText &failure) { leave_out(&done->outcome, DatumGetInt64(free[i]), failure); });
}

int job_ids(const Rows &rows, Datum *ids) {
    int count = 0;
    for (uint64 i = 0; i < rows.size(); i++)
        if (i == 0 || rows[i].int64_at(1) != rows[i - 1].int64_at(1)) ids[count++] = rows[i].get(1);
    return count;
}

void look_at_event(const Unblocked &told, Unblocking *done) {
    const Rows rows = run(
        find_awaiting, Params().add(Int64GetDatum(-told.key)).add(Int64GetDatum(told.job)).add(Int64GetDatum(kBatch)));
    auto *jobs = room_for<Datum>(rows.size());
    look_at_jobs(jobs, job_ids(rows, jobs), done);
    if (rows.size() == static_cast<uint64>(kBatch))
        log_unblocked(Blocker::Wait, told.key, rows[rows.size() - 1].int64_at(1) + 1);
}

}  // namespace

void look_at_waits(const Unblocked *told, int count, Unblocking *done) {
    if (!any_step()) return;
    auto *jobs = room_for<Datum>(count);
    int job_count = 0;
    for (int i = 0; i < count; i++) {
        if (told[i].key < 0)
            look_at_event(told[i], done);
        else
            jobs[job_count++] = Int64GetDatum(told[i].key);
    }
    look_at_jobs(jobs, job_count, done);
}

bool search_waits(SearchPlace *place, int limit, Unblocking *done) {
    if (!any_step()) return false;
    const Rows rows = run(find_next, Params().add(Int64GetDatum(place->behind)).add(Int64GetDatum(limit)));
    auto *jobs = room_for<Datum>(rows.size());
    const int count = job_ids(rows, jobs);
    if (count > 0) place->behind = DatumGetInt64(jobs[count - 1]);
    look_at_jobs(jobs, count, done);
    return rows.size() == static_cast<uint64>(limit);
}

}  // namespace jobq
