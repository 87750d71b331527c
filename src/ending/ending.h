// What follows when an attempt ends or a job finishes: the attempt is recorded, a key is kept (unique_for), the job is
// deleted where its queue does not keep it, or moved to the dead letter queue. Noted while rows are written, done
// by SQL afterwards, for all at once.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "ending/attempt_outcome.h"
#include "job/change_job.h"
#include "job/locked_jobs.h"
#include "keys/kept_keys.h"
#include "queues/directory.h"

namespace jobq {

// One row of jobq.attempts.
struct EndedAttempt {
    int64 job;
    int64 lease;  // 0: it was set to processing by hand
    int32 attempt;
    AttemptOutcome outcome;
    text *worker_id, *error;  // nullptr: none
    core::Maybe started_at;
    bool reported;  // by the worker that had the lease
};

// Zeroed at first.
struct Endings {
    Notes<EndedAttempt> attempts;
    Notes<KeptKey> keys;
    Notes<Datum> unkept, buried, waited;  // waited: what they have awaited is over
};

// Until the next attempt of a job that has failed, by its queue's backoff.
core::Micros retry_delay(const Queue &queue, int attempts);

// How an attempt ends without completing.
struct AttemptEnd {
    AttemptOutcome outcome;
    text *error;  // nullptr: none
    bool reported;
};

// Ends the attempt of the running job in table.row, `before`. False: look again, as write_life says.
bool end_attempt(JobsTable *jobs, const JobState &before, const core::Life &after, const AttemptEnd &end,
                 TimestampTz now, Endings *endings);

// The job in table.row has become `after`, finished or not.
void note_end(const JobsTable &jobs, const JobState &before, const core::Life &after, TimestampTz now,
              Endings *endings);

// Does what follows, when the table is closed. Inside with_spi(), or with the owner's rights by itself.
void settle_endings(const Endings &endings, TimestampTz now);
void settle_endings_as_owner(const Endings &endings, TimestampTz now);

// Lets an event that may end them happen to jobs that are locked, where it applies, and notes what follows, or does it.
// Inside with_spi().
Operated let_happen_and_note(const Datum *ids, int count, const core::Event &event, Endings *endings);
Operated let_happen_and_end(const Datum *ids, int count, const core::Event &event);

// Deletes the attempts of jobs that somebody deleted by hand; all attempts. Those of a job that gets another id go with
// it.
void delete_attempts(Datum *ids, int count);
void delete_all_attempts();
void move_attempts(int64 from, int64 to);

// Deletes jobs and their attempts, whatever their status, but for those that unfinished jobs need. `ids` is changed.
void delete_jobs_and_attempts(Datum *ids, int count);
// The same of jobs that are locked, and that somebody wants to be gone whoever needs them. Returns how many.
int64 delete_jobs(Datum *ids, int count);

}  // namespace jobq
