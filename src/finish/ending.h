// Carries out the actions that follow when an attempt ends or a job finishes: the attempt is recorded, the unique key
// is kept (unique_for), and the job is deleted if it is not kept, or is moved to the dead letter queue. The
// actions are collected while rows are written, and are then carried out together, with SQL.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "finish/attempt_outcome.h"
#include "finish/kept_keys.h"
#include "job/change_job.h"
#include "queues/directory.h"
#include "row/locked_jobs.h"

namespace jobq {

// One row of jobq.attempts.
struct EndedAttempt {
    int64 job;
    int64 lease;  // 0 if the job was set to processing with plain SQL
    int32 attempt;
    AttemptOutcome outcome;
    text *worker_id, *error;  // nullptr if none
    core::OptInt64 started_at;
    bool reported;  // by the worker that held the lease
    Datum details;  // jsonb; 0 if none
};

// The actions to carry out. Must be zeroed before use.
struct Endings {
    Notes<EndedAttempt> attempts;
    Notes<KeptKey> keys;
    // Ids of jobs to delete, of jobs to move to the dead letter queue, and of jobs whose waits have ended.
    Notes<Datum> unkept, buried, waited;
};

// Returns the delay before the next attempt of a failed job to which these settings apply.
core::Micros retry_delay(const core::QueueSettings &settings, int attempts);
// Returns whether the group of the job, if it has one, halts if the job fails permanently.
bool halts_on_failure(const JobState &job);

// The end of an attempt that does not complete its job.
struct AttemptEnd {
    AttemptOutcome outcome;
    text *error;  // nullptr if none
    bool reported;
    Datum details = 0;  // jsonb; 0 if none
};

// Ends the attempt of the running job in table.row, whose state is `before`. Like write_life(), returns false if the
// caller must read the job again.
bool end_attempt(JobsTable *jobs, const JobState &before, const core::Life &after, const AttemptEnd &end,
                 TimestampTz now, Endings *endings);

// Adds to *endings the actions that are necessary because the job in table.row changes from `before` to `after`. The
// job need not have finished.
void note_end(const JobsTable &jobs, const JobState &before, const core::Life &after, TimestampTz now,
              Endings *endings);

// These functions carry out the collected actions. Call them after the table has been closed. Call settle_endings()
// inside with_spi(). settle_endings_as_owner() itself opens SPI, with the owner's privileges.
void settle_endings(const Endings &endings, TimestampTz now);
void settle_endings_as_owner(const Endings &endings, TimestampTz now);

// These functions apply an event to the given locked jobs. The event may end the jobs. The functions skip jobs to
// which the event does not apply. apply_and_note() adds the resulting actions to *endings, and apply_and_end() carries
// them out. If `errors` is given, it contains the error (text) of each job. Call both functions inside with_spi().
Operated apply_and_note(const Datum *ids, int count, const core::Event &event, Endings *endings,
                        const Datum *errors = nullptr);
Operated apply_and_end(const Datum *ids, int count, const core::Event &event, const Datum *errors = nullptr);

// Cancels each of these locked jobs that has an expires_at, with the error "expired". The caller must have checked
// that the time has passed. Call it inside with_spi().
void expire_jobs(const Datum *ids, int count, TimestampTz now);

// These functions also apply to the log lines of the attempts. delete_attempts() deletes the attempts of jobs that were
// deleted with plain SQL, delete_all_attempts() deletes all attempts, and move_attempts() moves the attempts of a job
// to the job's new id.
void delete_attempts(Datum *ids, int count);
void delete_all_attempts();
void move_attempts(int64 from, int64 to);

// Deletes these jobs and their attempts, regardless of the status of the jobs, but keeps jobs that unfinished jobs
// need. Modifies the array `ids`.
void delete_jobs_and_attempts(Datum *ids, int count);
// Deletes locked jobs even if other jobs need them. Returns the number of deleted jobs.
int64 delete_jobs(Datum *ids, int count);

}  // namespace jobq
