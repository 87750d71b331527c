// Reads and writes jobq.log_lines, the lines of text that workers write about their attempts, and the lines that record
// what operators have done to a job. A worker's line does not lock the row of its job, so it never waits for a report
// on the job, and changes nothing but this table. A line can therefore be committed after its job has been deleted; the
// duty "prune" deletes such lines.
//
// Call all functions inside with_spi(), with the owner's privileges.
#pragma once

#include "compat/pg.h"
#include "finish/log_lines_policy.h"
#include "queues/scope.h"

namespace jobq {

// A line that a worker writes about the attempt with this lease.
struct LogLine {
    int64 job, lease;
    text *line;
    core::LogLevel level;
    TimestampTz written_at;
};

// An attempt about which a worker writes lines.
struct LoggedAttempt {
    int64 job, lease;
    int position;  // of the attempt's first line
    bool known;    // out: the attempt exists, and the caller may write about it; otherwise its lines are dropped
    bool late;     // out: the attempt has ended
    int number;    // out: number of the attempt
    int stored;    // out: how many of the lines were stored
    int dropped;   // out: how many of the lines did not fit
    core::StoredLines before;
    TimestampTz not_before;  // when the attempt started, or the time of its last line
};

// Stores the lines of these attempts, which must be sorted by (job, lease). For each attempt, sets the members marked
// "out".
void write_log_lines(const LogLine *lines, int count, LoggedAttempt *attempts, int attempt_count,
                     const QueueScope *scope);

// Records that the session's user has changed this job, which must be locked. The line is `change`, the name of the
// user, and `detail`. Keeps the last lines of each job.
void write_operator_line(int64 job, const char *change, const char *detail, TimestampTz now);

// These functions do nothing if the table is empty. delete_log_lines() deletes the lines of deleted jobs,
// delete_all_log_lines() deletes all lines, and move_log_lines() moves the lines of a job to the job's new id.
void delete_log_lines(Datum *ids, int count);
void delete_all_log_lines();
void move_log_lines(int64 from, int64 to);
// Deletes lines of at most `batch` jobs that no longer exist and whose ids are greater than `after` and at most `last`.
void prune_log_lines(int64 after, int64 last, int batch);

}  // namespace jobq
