// See duties.h. Jobs that somebody else holds are passed over: a tick waits for nobody.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/spi.h"
#include "duties/change_jobs.h"
#include "duties/duties.h"
#include "ending/ending.h"
#include "groups/groups.h"
#include "job/rows.h"
#include "leases/young_leases.h"

namespace jobq {

namespace {

Statement lock_due = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE )" DUE R"( AND j.run_at <= $1
       ORDER BY j.run_at, j.id LIMIT $2
       FOR NO KEY UPDATE SKIP LOCKED)",
    {TIMESTAMPTZOID, INT8OID}};

Statement find_unfinished = {
    R"(SELECT EXISTS (SELECT FROM jobq.jobs j WHERE j._rescue_indexed)
           OR EXISTS (SELECT FROM jobq.jobs j WHERE )" DUE R"()
           OR EXISTS (SELECT FROM jobq.jobs j WHERE j._ready))",
    {}};

Statement find_any = {"SELECT 1 FROM jobq.jobs j ORDER BY j.id LIMIT 1", {}};

}  // namespace

void let_happen_to_each(const Rows &locked, const core::Event &event, DutyOutcome *outcome) {
    auto *ids = room_for<Datum>(locked.size());
    for (uint64 i = 0; i < locked.size(); i++) ids[i] = locked[i].get(1);
    change_jobs(
        static_cast<int>(locked.size()), [&](int first, int n) { let_happen(ids + first, n, event); },
        [&](int i) { return DatumGetInt64(ids[i]); }, outcome);
}

DutyOutcome promote_due(TimestampTz now, int batch) {
    const Rows due = run(lock_due, Params().add(TimestampTzGetDatum(now)).add(Int64GetDatum(batch)));
    DutyOutcome outcome = {};
    let_happen_to_each(due, {core::EventKind::Due, now}, &outcome);
    outcome.more = due.size() == static_cast<uint64>(batch) && outcome.done > 0;
    return outcome;
}

bool any_unfinished_job() {
    return next_young_due() != DT_NOEND || run(find_unfinished, Params())[0].bool_at(1) || any_group_waits();
}

bool any_job() { return run(find_any, Params()).size() > 0; }

}  // namespace jobq
