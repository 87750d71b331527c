// How duties change jobs: a batch at once or, where that fails, each by itself; those that cannot be changed are left
// out, counted and named (job/duty_outcome.h).
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "job/change_job.h"
#include "job/duty_outcome.h"

namespace jobq {

// Of j: its time is yet to come, or has. A `_due` that was left on another row, behind the triggers' back, is nobody's.
#define DUE "j._due AND (j.status = 'scheduled' OR j.status = 'blocked' AND j._must_end_at IS NOT NULL)"

// Changes the jobs of a batch, leaving out those that cannot be changed. id(i) names one of them.
template <typename Change, typename Id>
void change_jobs(int count, Change change, Id id, DutyOutcome *outcome) {
    change_all_or_each(
        count, change, [&](int) { outcome->done++; },
        [&](int i, const FailureText &failure) { leave_out(outcome, id(i), failure); });
}

// Lets an event happen to locked jobs. The second form takes the rows of the statement that locked them; the rows begin
// with the ids.
void let_happen_to_each(const Datum *ids, int count, const core::Event &event, DutyOutcome *outcome);
void let_happen_to_each(const Rows &locked, const core::Event &event, DutyOutcome *outcome);

// Changes rows of another table than jobq.jobs. Where that fails, and so will the next time, the duty goes on without.
template <typename Change>
void change_beside(const char *table, Change change, DutyOutcome *outcome) {
    FailureText failure;
    if (!attempt(change, &failure) && outcome->failed++ == 0)
        snprintf(outcome->error, sizeof(outcome->error), "%s: %s", table, failure.message);
}

}  // namespace jobq
