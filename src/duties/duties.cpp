// See duties.h. The statements skip jobs that other transactions have locked, so that a tick never waits for them.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/spi.h"
#include "duties/change_jobs.h"
#include "duties/duties.h"
#include "finish/ending.h"
#include "groups/groups.h"
#include "lanes/refresh.h"
#include "leases/young_leases.h"
#include "log/rows.h"
#include "metrics/counters.h"
#include "shmem/database_state.h"

namespace jobq {

namespace {

// Condition for due jobs j with keys (run_at, id) in a range.
#define DUE_BETWEEN DUE " AND (j.run_at, j.id) >= ($1, $2) AND (j.run_at, j.id) < ($3, $4) "
Statement lock_due = {"SELECT j.id FROM jobq.jobs j WHERE " DUE_BETWEEN
                      "AND j.run_at <= $5 ORDER BY j.run_at, j.id LIMIT $6 FOR NO KEY UPDATE SKIP LOCKED",
                      {TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID}};
Statement get_next_due = {"SELECT j.run_at FROM jobq.jobs j WHERE " DUE_BETWEEN "ORDER BY j.run_at, j.id LIMIT 1",
                          {TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID}};

Statement find_unfinished = {
    R"(SELECT EXISTS (SELECT FROM jobq.jobs j WHERE j._rescue_indexed)
           OR EXISTS (SELECT FROM jobq.jobs j WHERE )" DUE R"()
           OR EXISTS (SELECT FROM jobq.jobs j WHERE j._ready))",
    {}};

Statement find_any = {"SELECT 1 FROM jobq.jobs j ORDER BY j.id LIMIT 1", {}};

Params between(const core::KeyRange &keys) {
    return Params()
        .add(TimestampTzGetDatum(keys.from.run_at))
        .add(Int64GetDatum(keys.from.id))
        .add(TimestampTzGetDatum(keys.to.run_at))
        .add(Int64GetDatum(keys.to.id));
}

// Calls body(keys) for each range of keys up to `end` in which there may be due jobs, in ascending order, until body()
// returns false.
template <typename Body>
void for_possible_due(const core::ClaimKey &end, Body body) {
    const core::EmptyRanges empty = refreshed_ranges(core::KeySpace::Due, end);
    core::KeyRange keys = core::next_possible(empty, core::kFirstKey);
    while (keys.from < keys.to && keys.from <= end && body(keys)) keys = core::next_possible(empty, keys.to);
}

}  // namespace

void apply_to_each(const Datum *ids, int count, const core::Event &event, DutyOutcome *outcome) {
    change_jobs(
        count, [&](int first, int n) { apply_event(ids + first, n, event); },
        [&](int i) { return DatumGetInt64(ids[i]); }, outcome);
}

void apply_to_each(const Rows &locked, const core::Event &event, DutyOutcome *outcome) {
    auto *ids = allocate_array<Datum>(locked.size());
    for (uint64 i = 0; i < locked.size(); i++) ids[i] = locked[i].get(1);
    apply_to_each(ids, static_cast<int>(locked.size()), event, outcome);
}

DutyOutcome promote_due(TimestampTz now, int batch) {
    Notes<Datum> due = {};
    for_possible_due(core::due_key(now, PG_INT64_MAX), [&](const core::KeyRange &keys) {
        const Rows rows =
            run(lock_due, between(keys).add(TimestampTzGetDatum(now)).add(Int64GetDatum(int64{batch} - due.count)));
        for (uint64 i = 0; i < rows.size(); i++) due.add(rows[i].get(1));
        return due.count < batch;
    });
    DutyOutcome outcome = {};
    apply_to_each(due.items, due.count, {core::EventKind::Due, now}, &outcome);
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

bool any_unfinished_job() {
    bool any = false;
    if (next_young_due() != DT_NOEND) return true;
    if (trigger_epoch() != kNoEpoch &&
        any_counted([](core::JobStatus status) { return !core::is_finished(status); }, &any))
        return any;
    return run(find_unfinished, Params())[0].bool_at(1) || any_group_waits();
}

bool any_job() {
    bool any = false;
    if (trigger_epoch() != kNoEpoch && any_counted([](core::JobStatus) { return true; }, &any)) return any;
    return run(find_any, Params()).size() > 0;
}

}  // namespace jobq
