// How duties change jobs: a batch at once, or one by one if the batch fails. Jobs that cannot be changed are skipped,
// counted, and reported (job/duty_outcome.h).
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "job/change_job.h"
#include "job/duty_outcome.h"

namespace jobq {

// Selects jobs j that are or will become due. Ignores a `_due` that a change with triggers disabled has left on another
// row.
#define DUE "j._due AND (j.status = 'scheduled' OR j.status = 'blocked' AND j._must_end_at IS NOT NULL)"

// Changes the jobs of a batch and skips the ones that cannot be changed. id(i) returns the id of job i.
template <typename Change, typename Id>
void change_jobs(int count, Change change, Id id, DutyOutcome *outcome) {
    change_all_or_each(
        count, change, [&](int) { outcome->done++; },
        [&](int i, const FailureText &failure) { leave_out(outcome, id(i), failure); });
}

// Applies an event to locked jobs. The second form takes the rows of the statement that locked the jobs; the first
// column is the id.
void apply_to_each(const Datum *ids, int count, const core::Event &event, DutyOutcome *outcome);
void apply_to_each(const Rows &locked, const core::Event &event, DutyOutcome *outcome);

// Changes rows of another table than jobq.jobs. If that fails, the duty continues without the change, because the next
// attempt would fail too.
template <typename Change>
void change_beside(const char *table, Change change, DutyOutcome *outcome) {
    FailureText failure;
    if (!attempt(change, &failure) && outcome->failed++ == 0)
        snprintf(outcome->error, sizeof(outcome->error), "%s: %s", table, failure.message);
}

}  // namespace jobq
