// See edge_ends.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "edges/awaited_jobs.h"
#include "edges/edges.h"
#include "groups/awaiters.h"
#include "groups/dependents.h"
#include "groups/edge_ends.h"
#include "steps/steps.h"

namespace jobq {

namespace {

// Maximum number of jobs of a search per transaction: all edges of each job are looked at.
constexpr int kSearchBatch = 200;
constexpr core::Micros kLongSearch = 50000;

// One branch for each index of active edges.
Statement find_watched = {
    R"(SELECT w.target
       FROM unnest($1) AS u(id),
            LATERAL (SELECT e.target FROM jobq.edges e WHERE e.job_id = u.id AND e.kind = 'depends' AND e.active
                     UNION ALL
                     SELECT e.target FROM jobq.edges e WHERE e.job_id = u.id AND e.kind = 'awaits' AND e.active) w)",
    {INT8ARRAYOID}};

// Selects jobs that wait, and jobs with an active dependency that no longer wait: NULL if the job does not exist. The
// steps include all waits for other jobs. The step of a job comes before its dependency, because the next piece begins
// after the job.
Statement find_waiting = {
    R"(SELECT w.job_id, w.depends, x.blocked
       FROM ((SELECT e.job_id, true AS depends FROM jobq.edges e
              WHERE e.kind = 'depends' AND e.active AND e.job_id > $1 ORDER BY e.job_id LIMIT $2)
             UNION ALL
             (SELECT s.job_id, false FROM jobq.steps s
              WHERE s._awaited IS NOT NULL AND s.job_id > $1 ORDER BY s.job_id LIMIT $2)
             ORDER BY 1, 2 LIMIT $2) w
            LEFT JOIN LATERAL (SELECT j.status = 'blocked' AND j._must_end_at IS NULL AS blocked FROM jobq.jobs j
                               WHERE j.id = ANY (ARRAY[w.job_id])) x ON true)",
    {INT8OID, INT8OID}};

bool any_active() { return any_active(EdgeKind::Depends) || any_active(EdgeKind::Awaits); }

// Looks at all that these jobs wait for. Returns how many were cancelled.
int64 look_at_whole_jobs(Datum *jobs, int count, Unblocking *done) {
    if (count == 0) return 0;
    if (any_active()) watch_targets(array_of(jobs, count, INT8OID));
    look_at_awaiters(jobs, count, done);
    return look_at_dependents(jobs, count, done);
}

}  // namespace

void watch_targets(Datum jobs) {
    const Rows targets = run(find_watched, Params().add(jobs));
    for (uint64 i = 0; i < targets.size(); i++) await_job(targets[i].int64_at(1));
}

void look_at_edges(const Unblocked *published, int count, Unblocking *done) {
    Ended ended = {allocate_array<Datum>(count), allocate_array<Datum>(count), allocate_array<Datum>(count), 0};
    Notes<Datum> whole = {};
    // Before anything is looked at, because a dependency may fail to which no active edge leads.
    if (any_active()) note_awaiting();
    for (int i = 0; i < count; i++) {
        if (published[i].key < 0) {
            whole.add(Int64GetDatum(-published[i].key));
            continue;
        }
        await_job(published[i].key);
        ended.first[ended.count] = Int64GetDatum(published[i].job);
        ended.jobs[ended.count++] = Int64GetDatum(published[i].key);
    }
    keep_ended(&ended);
    // Before the next look: a session that finds the job unfinished there, because it was retried, enters it again.
    for (int i = 0; i < ended.count; i++) stop_awaiting_job(DatumGetInt64(ended.jobs[i]));
    look_at_dependents_of(ended, done);
    find_awaiters(ended, &whole);
    look_at_whole_jobs(whole.items, whole.count, done);
}

void look_at_events(const Unblocked *published, int count, Unblocking *done) {
    Notes<Datum> jobs = {};
    find_awaiters_of_events(published, count, &jobs);
    look_at_awaiters(jobs.items, jobs.count, done);
}

bool search_edges(SearchPlace *place, int limit, Unblocking *done) {
    if (!any_active()) {
        if (any_job_awaited()) forget_awaited_jobs(MyDatabaseId);
        if (!any_step()) return false;
    } else {
        note_awaiting();
    }
    if (place->behind == PG_INT64_MIN) place->began = begin_awaited_search();
    // Fewer jobs at a time if they have many edges, because other jobs wait for the end of this transaction.
    static int at_once = kSearchBatch;
    const TimestampTz begun = GetCurrentTimestamp();
    limit = Min(limit, at_once);
    const Rows waiting = run(find_waiting, Params().add(Int64GetDatum(place->behind)).add(Int64GetDatum(limit)));
    Datum *jobs = allocate_array<Datum>(limit), *left = allocate_array<Datum>(limit);
    int count = 0, left_count = 0;
    for (uint64 i = 0; i < waiting.size(); i++) {
        const Row row = waiting[i];
        place->behind = row.int64_at(1);
        const bool depends = row.bool_at(2);
        // During a restore the row of the job may come later.
        if (depends && row.is_null(3)) continue;
        if (depends && !row.bool_at(3))
            left[left_count++] = row.get(1);
        else if (count == 0 || jobs[count - 1] != row.get(1))
            jobs[count++] = row.get(1);
    }
    // A job that is cancelled may have dependents among these: they have higher ids.
    while (look_at_whole_jobs(jobs, count, done) > 0) CHECK_FOR_INTERRUPTS();
    deactivate_dependencies(left, left_count);
    at_once = GetCurrentTimestamp() - begun > kLongSearch ? Max(at_once / 2, 1) : Min(at_once * 2, kSearchBatch);
    const bool more = waiting.size() == static_cast<uint64>(limit);
    if (!more) end_awaited_search(place->began);
    return more;
}

}  // namespace jobq
