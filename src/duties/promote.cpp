// The duty "promote", which makes due jobs claimable. Its statements skip jobs that other transactions have locked, so
// that a tick never waits for these transactions.
#include "compat/pg.h"

#include "compat/spi.h"
#include "duties/change_jobs.h"
#include "duties/duties.h"
#include "lanes/refresh.h"

namespace jobq {

namespace {

// SQL condition: the job j is due or will become due, and its key (run_at, id) is in the given range.
#define DUE_BETWEEN DUE " AND (j.run_at, j.id) >= ($1, $2) AND (j.run_at, j.id) < ($3, $4) "
Statement lock_due = {"SELECT j.id FROM jobq.jobs j WHERE " DUE_BETWEEN
                      "AND j.run_at <= $5 ORDER BY j.run_at, j.id LIMIT $6 FOR NO KEY UPDATE SKIP LOCKED",
                      {TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID}};
Statement get_next_due = {"SELECT j.run_at FROM jobq.jobs j WHERE " DUE_BETWEEN "ORDER BY j.run_at, j.id LIMIT 1",
                          {TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID}};

Params between(const core::KeyRange &keys) {
    return Params()
        .add(TimestampTzGetDatum(keys.from.run_at))
        .add(Int64GetDatum(keys.from.id))
        .add(TimestampTzGetDatum(keys.to.run_at))
        .add(Int64GetDatum(keys.to.id));
}

// Calls body(keys) for each range of keys up to `end` that might contain due jobs. Goes through the ranges in ascending
// order and stops when body() returns false.
template <typename Body>
void for_possible_due(const core::ClaimKey &end, Body body) {
    const core::EmptyRanges empty = refreshed_ranges(core::KeySpace::Due, end);
    core::KeyRange keys = core::next_possible(empty, core::kFirstKey);
    while (keys.from < keys.to && keys.from <= end && body(keys)) keys = core::next_possible(empty, keys.to);
}

}  // namespace

DutyOutcome promote_due(TimestampTz now, int batch) {
    Notes<Datum> due = {};
    for_possible_due(core::due_key(now, PG_INT64_MAX), [&](const core::KeyRange &keys) {
        const Rows rows =
            run(lock_due, between(keys).add(TimestampTzGetDatum(now)).add(Int64GetDatum(int64{batch} - due.count)));
        for (uint64 i = 0; i < rows.size(); i++) due.add(rows[i].get(1));
        return due.count < batch;
    });
    DutyOutcome outcome = {};
    apply_to_each(due, {core::EventKind::Due, now}, &outcome);
    outcome.more = due.count == batch && outcome.done > 0;
    return outcome;
}

TimestampTz next_due_job() {
    TimestampTz next = DT_NOEND;
    for_possible_due(core::kLastKey, [&](const core::KeyRange &keys) {
        const Rows rows = run(get_next_due, between(keys));
        if (rows.size() > 0) next = DatumGetTimestampTz(rows[0].get(1));
        return rows.size() == 0;
    });
    return next;
}

}  // namespace jobq
