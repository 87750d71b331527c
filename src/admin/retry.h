// Finished jobs that run again, by jobq_retry or by jobq_redrive. A dead letter goes home first, and a job
// with a unique key must get it back: another job may have it by now. Inside with_spi().
#pragma once

#include "compat/pg.h"
#include "queues/scope.h"
#include "row/locked_jobs.h"

namespace jobq {

// Makes these jobs (bigint[]) pending where they are finished or scheduled, and their homes in scope. 23505 for a job
// whose unique key another has.
Operated retry_jobs(Datum ids, const QueueScope *scope, TimestampTz now);
// The same in any queue, but leaves such jobs out. Returns how many were changed.
int64 retry_those_with_free_keys(Datum ids, TimestampTz now);

// Makes a job run again from one of its steps on: that and those that were saved after it are dropped. 22023 when it
// has no such step; 23505 as above.
void retry_from(int64 id, text *step, const QueueScope *scope, TimestampTz now);

// Makes up to max_jobs dead letters that are in the queue or came from it, lowest ids first, run again from the
// beginning where they came from, `per_second` a second; 0: all now. Jobs that others hold are passed over, and those
// whose unique key another has. Returns how many. 22023 when the last would run later than core::kLongestPacing.
int64 redrive(text *queue, const QueueScope *scope, int64 max_jobs, double per_second, TimestampTz now);

}  // namespace jobq
