// See overlap.h.
#include "compat/pg.h"

#include "compat/memory.h"
#include "finish/ending.h"
#include "log/rows.h"
#include "row/job_scans.h"
#include "schedules/overlap.h"

namespace jobq {

namespace {

#define UNFINISHED_OF_SCHEDULE "FROM jobq.jobs j WHERE j.status <= 'processing' AND j.metadata ->> 'schedule' = $1 "

// A job that has expired at the time $3 does not count as unfinished, even if the duty "expire" has not canceled it
// yet.
Statement is_unfinished = {"SELECT 1 " UNFINISHED_OF_SCHEDULE "AND j.id = $2 AND " NOT_EXPIRED("$3"),
                           {TEXTOID, INT8OID, TIMESTAMPTZOID}};
Statement lock_unfinished = {"SELECT j.id " UNFINISHED_OF_SCHEDULE
                             "AND j.id = ANY ($2) AND " NOT_EXPIRED("$3") " ORDER BY j.id FOR NO KEY UPDATE",
                             {TEXTOID, INT8ARRAYOID, TIMESTAMPTZOID}};
Statement find_key_holder = {R"(SELECT 1 FROM jobq.jobs j
       WHERE j.id = ANY ($1) AND j._holds_key AND j.queue = $2 COLLATE "C" AND j.unique_key = $3 COLLATE "C" LIMIT 1)",
                             {INT8ARRAYOID, TEXTOID, TEXTOID}};
Statement find_all = {"SELECT j.id " UNFINISHED_OF_SCHEDULE "AND j.queue = $2 ORDER BY j.id LIMIT 10000",
                      {TEXTOID, TEXTOID},
                      Planning::Free};

JobIds ids_of(const Rows &rows) { return {first_column(rows), static_cast<int>(rows.size())}; }

// Returns the jobs that were unfinished at the last run, followed by the job that the last run enqueued.
Datum candidates(const Schedule &schedule) {
    Elements before = {};
    if (schedule.unfinished != nullptr)
        before = elements_of(schedule.unfinished, INT8OID, "_unfinished", PG_INT32_MAX, NullElements::Refused);
    auto *ids = allocate_array<Datum>(static_cast<uint64>(before.count) + 1);
    int count = 0;
    while (count < before.count) {
        ids[count] = before.values[count];
        count++;
    }
    if (schedule.last_job) ids[count++] = Int64GetDatum(*schedule.last_job);
    return array_of(ids, count, INT8OID);
}

}  // namespace

bool last_job_unfinished(const Schedule &schedule, TimestampTz now) {
    if (!schedule.last_job) return false;
    const Params params = Params()
                              .add(PointerGetDatum(schedule.spec.name))
                              .add(Int64GetDatum(*schedule.last_job))
                              .add(TimestampTzGetDatum(now));
    return run(is_unfinished, params).size() > 0;
}

JobIds cancel_unfinished(const Schedule &schedule, TimestampTz now) {
    const Params params =
        Params().add(PointerGetDatum(schedule.spec.name)).add(candidates(schedule)).add(TimestampTzGetDatum(now));
    const JobIds locked = ids_of(run(lock_unfinished, params));
    if (locked.count == 0) return locked;
    Endings endings = {};
    apply_and_note(locked.items, locked.count, {core::EventKind::Cancelled, now}, &endings);
    // Releases the unique keys of the canceled jobs instead of keeping them (unique_for), because these jobs have not
    // started, and the new job needs one of the keys.
    endings.keys.count = 0;
    settle_endings(endings, now);
    return ids_of(run(lock_unfinished, params));
}

bool one_has_key(const JobIds &ids, const JobSpec &job) {
    if (ids.count == 0 || job.unique_key == nullptr) return false;
    const Params params = Params()
                              .add(array_of(ids.items, ids.count, INT8OID))
                              .add(PointerGetDatum(job.queue))
                              .add(PointerGetDatum(job.unique_key));
    return run(find_key_holder, params).size() > 0;
}

JobIds find_unfinished(const ScheduleSpec &spec) {
    return ids_of(run(find_all, Params().add(PointerGetDatum(spec.name)).add(PointerGetDatum(spec.queue))));
}

}  // namespace jobq
