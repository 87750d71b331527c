// The duty "expire", which cancels the jobs that no worker has claimed before their expires_at. Claims check expires_at
// themselves, so a job that has expired does not run even if this duty is late.
#include "compat/pg.h"

#include "compat/spi.h"
#include "core/search_start.h"
#include "duties/change_jobs.h"
#include "duties/duties.h"
#include "finish/ending.h"
#include "log/rows.h"

namespace jobq {

namespace {

// The status must be checked because a change made while triggers were disabled can leave expires_at in the row of a
// job that does not expire.
Statement find_first = {
    R"(SELECT j.expires_at FROM jobq.jobs j WHERE j.expires_at >= $1 AND j.status < 'processing'
       ORDER BY j.expires_at LIMIT 1)",
    {TIMESTAMPTZOID}};
Statement lock_expired = {
    R"(SELECT j.id FROM jobq.jobs j WHERE j.expires_at >= $1 AND j.expires_at <= $2 AND j.status < 'processing'
       ORDER BY j.expires_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED)",
    {TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID}};

// Returns the earliest expires_at, or DT_NOEND if no job expires.
TimestampTz first_expiry() {
    // A job can be committed after it has expired, and only a search of the whole index finds it, so these searches are
    // more frequent than for kept keys.
    static core::SearchStart start(20);
    const TimestampTz begun = GetCurrentTimestamp();
    const TimestampTz from = start.begin(MyBackendType == B_BG_WORKER, begun);
    const Rows rows = read(find_first, Params().add(TimestampTzGetDatum(from)));
    const TimestampTz first = rows.size() == 0 ? DT_NOEND : DatumGetTimestampTz(rows[0].get(1));
    // The next search begins at the current time at the latest, because a job that is enqueued from now on can expire
    // before the jobs that exist now.
    start.end(Min(first, begun), GetCurrentTimestamp());
    return first;
}

}  // namespace

DutyOutcome expire_unclaimed(TimestampTz now, int batch) {
    DutyOutcome outcome = {};
    const TimestampTz first = first_expiry();
    if (first > now) return outcome;
    const Rows locked = run(
        lock_expired, Params().add(TimestampTzGetDatum(first)).add(TimestampTzGetDatum(now)).add(Int64GetDatum(batch)));
    const int count = static_cast<int>(locked.size());
    const Datum *ids = first_column(locked);
    change_jobs(
        count, [&](int from, int n) { expire_jobs(ids + from, n, now); }, [&](int i) { return DatumGetInt64(ids[i]); },
        &outcome);
    outcome.more = count == batch && outcome.done > 0;
    return outcome;
}

}  // namespace jobq
