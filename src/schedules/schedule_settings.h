// Creates, changes, and removes the rows of schedules. When a change commits, the worker is notified of the time when
// the schedule is due. Call these functions inside with_spi(), with the privileges of the owner.
#pragma once

#include "compat/pg.h"
#include "queues/scope.h"
#include "schedules/schedule.h"

namespace jobq {

enum class Change { Unchanged, Created, Changed };
struct Scheduled {
    Change change;
    core::OptInt64 next_run;  // empty if the schedule is paused or never runs again
};

// Creates the schedule or changes it to the checked definition. Keeps the time of the next run if the expression, time
// zone, and bounds stay the same; otherwise, computes the time again, starting from `now`. If another session is firing
// the schedule, waits until the transaction of that session ends. Raises 42501 if the schedule belongs to a queue that
// is out of scope.
Scheduled put_schedule(const ScheduleSpec &spec, const QueueScope *scope, TimestampTz now);

// Locks the schedule. Returns false if it is not in scope or does not exist.
bool lock_schedule(const text *name, const QueueScope *scope, Schedule *schedule);

void remove_schedule(const text *name);
void pause_schedule(const text *name);
// Resumes a paused schedule. Skips the runs that were due during the pause.
void resume_schedule(const Schedule &schedule, TimestampTz now);

// lock_schedules_of() locks the schedules of a queue and returns whether there are any. remove_schedules_of() removes
// them.
bool lock_schedules_of(const text *queue);
int64 remove_schedules_of(const text *queue);

// Serializes transactions that replace all schedules of a source. Waits for a running transaction of this kind, and
// blocks later transactions of this kind until the current transaction ends. A role that is restricted to certain
// queues waits only for roles with the same queues.
void wait_for_other_sets(const QueueScope *scope);
// Locks the schedules with these names and, with `prune`, all schedules of the source, if they are in scope.
void lock_set(const text *source, Datum names, bool prune, const QueueScope *scope);
// Removes the schedules of a source that are in scope and whose names are not in `names`. Returns the removed names in
// order.
Rows remove_others_of(const text *source, Datum names, const QueueScope *scope);

}  // namespace jobq
