// Helpers with which duties change jobs: all jobs of a batch at once, or one by one if that fails. A job that cannot be
// changed is skipped, counted, and reported (job/duty_outcome.h).
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "job/change_job.h"
#include "job/duty_outcome.h"

namespace jobq {

// Condition for jobs j that are or will become due. The status is checked because a change with triggers disabled may
// leave `_due` set in a row that will not become due.
#define DUE "j._due AND (j.status = 'scheduled' OR j.status = 'blocked' AND j._must_end_at IS NOT NULL)"

// Calls change() for the jobs of a batch and skips the jobs that cannot be changed. id(i) returns the id of job i.
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

// Changes rows of a table other than jobq.jobs. If that fails, the duty reports the error and continues without the
// change, because another attempt would fail, too.
template <typename Change>
void change_beside(const char *table, Change change, DutyOutcome *outcome) {
    FailureText failure;
    if (!attempt(change, &failure) && outcome->failed++ == 0)
        snprintf(outcome->error, sizeof(outcome->error), "%s: %s", table, failure.message);
}

}  // namespace jobq
