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

// Maximum number of jobs that a search checks per transaction. The number is low because the search reads all edges of
// each job.
constexpr int kSearchBatch = 200;
constexpr core::Micros kLongSearch = 50000;

// Selects the targets of the active edges of these jobs. The statement has one branch for each index of active edges.
Statement find_watched = {
    R"(SELECT w.target
       FROM unnest($1) AS u(id),
            LATERAL (SELECT e.target FROM jobq.edges e WHERE e.job_id = u.id AND e.kind = 'depends' AND e.active
                     UNION ALL
                     SELECT e.target FROM jobq.edges e WHERE e.job_id = u.id AND e.kind = 'awaits' AND e.active) w)",
    {INT8ARRAYOID}};

// Selects a row for each job that has a wait in jobq.steps (which contains all waits for other jobs), and a row for
// each job that has an active dependency. The third column says whether the job is blocked by dependencies, or is NULL
// if the job does not exist. If a job has both rows, the row for the wait comes first. If the limit cuts off the second
// row, that row is not read later, because the next part of the search begins after this job.
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

// Checks everything that these jobs wait for, and unblocks or cancels the jobs if necessary. Returns the number of
// canceled jobs.
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
    // Calls note_awaiting() first, so that commits publish every job that fails from now on. This is needed because a
    // dependency can fail at any time, even if no active edge leads to it.
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
    // Removes the ended jobs from the list of awaited jobs before the dependents are checked. If an ended job was
    // retried and has not finished again, this check adds the job back to the list.
    for (int i = 0; i < ended.count; i++) stop_awaiting_job(DatumGetInt64(ended.jobs[i]));
    look_at_dependents_of(ended, done);
    find_awaiters(ended, &whole);
    look_at_whole_jobs(whole.items, whole.count, done);
}

void look_at_signals(const Unblocked *published, int count, Unblocking *done) {
    Notes<Datum> jobs = {};
    find_awaiters_of_signals(published, count, &jobs);
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
    // Checks fewer jobs per transaction if they have many edges, because unblocked jobs become visible only when the
    // transaction commits.
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
        // Skips the edges of a job that does not exist, because a restore can insert the edges of a job before the row
        // of the job.
        if (depends && row.is_null(3)) continue;
        if (depends && !row.bool_at(3))
            left[left_count++] = row.get(1);
        else if (count == 0 || jobs[count - 1] != row.get(1))
            jobs[count++] = row.get(1);
    }
    // Repeats the checks until no job is canceled, because a canceled job might have dependents among these jobs.
    while (look_at_whole_jobs(jobs, count, done) > 0) CHECK_FOR_INTERRUPTS();
    deactivate_dependencies(left, left_count);
    at_once = GetCurrentTimestamp() - begun > kLongSearch ? Max(at_once / 2, 1) : Min(at_once * 2, kSearchBatch);
    const bool more = waiting.size() == static_cast<uint64>(limit);
    if (!more) end_awaited_search(place->began);
    return more;
}

}  // namespace jobq
