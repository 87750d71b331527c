// Helpers for duties that change jobs. They change all jobs of a batch at once or, if that fails, one by one. A job
// that cannot be changed is skipped, counted, and reported (job/duty_outcome.h).
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "compat/subtransaction.h"
#include "job/change_job.h"
#include "job/duty_outcome.h"

namespace jobq {

// SQL condition: the job j is due or will become due. The status must be checked because a change made while triggers
// were disabled can leave `_due` set in a row that will not become due.
#define DUE "j._due AND (j.status = 'scheduled' OR j.status = 'blocked' AND j._must_end_at IS NOT NULL)"

// Calls change() for the jobs in a batch and skips the jobs that cannot be changed. id(i) returns the id of job i.
template <typename Change, typename Id>
void change_jobs(int count, Change change, Id id, DutyOutcome *outcome) {
    change_all_or_each(
        count, change, [&](int) { outcome->done++; },
        [&](int i, const FailureText &failure) { leave_out(outcome, id(i), failure); });
}

// Applies an event to locked jobs.
inline void apply_to_each(const Notes<Datum> &ids, const core::Event &event, DutyOutcome *outcome) {
    change_jobs(
        ids.count, [&](int first, int n) { apply_event(ids.items + first, n, event); },
        [&](int i) { return DatumGetInt64(ids.items[i]); }, outcome);
}

// Changes rows in a table other than jobq.jobs. If the change fails, the duty reports the error and continues without
// the change, because another attempt would also fail.
template <typename Change>
void change_beside(const char *table, Change change, DutyOutcome *outcome) {
    FailureText failure;
    if (!attempt(change, &failure) && outcome->failed++ == 0)
        snprintf(outcome->error, sizeof(outcome->error), "%s: %s", table, failure.message);
}

}  // namespace jobq
