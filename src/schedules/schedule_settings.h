// Creates, changes, and removes the rows of schedules. When a change commits, the worker learns when the schedule is
// due. Call these functions inside with_spi(), with the owner's rights.
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

// Creates the schedule or changes it to the checked definition. If the expression, time zone, and bounds are the same,
// the time of the next run stays; otherwise it is computed from now. If a session is firing the schedule, waits until
// that session is done. Raises 42501 if the schedule belongs to a queue that is out of scope.
Scheduled put_schedule(const ScheduleSpec &spec, const QueueScope *scope, TimestampTz now);

// Locks the schedule. Returns false if it is not in scope or does not exist.
bool lock_schedule(const text *name, const QueueScope *scope, Schedule *schedule);

void remove_schedule(const text *name);
void pause_schedule(const text *name);
// The runs that were due during the pause are skipped.
void resume_schedule(const Schedule &schedule, TimestampTz now);

// These functions lock the schedules of a queue, and remove them. The first returns whether the queue has any
// schedules.
bool lock_schedules_of(const text *queue);
int64 remove_schedules_of(const text *queue);

// Serializes transactions that change sets of schedules: waits for the other transaction, and blocks the next one until
// this transaction ends. A role that is restricted to queues waits only for roles with the same queues.
void wait_for_other_sets(const QueueScope *scope);
// Locks the schedules with these names and, with `prune`, all schedules of the source, if they are in scope.
void lock_set(const text *source, Datum names, bool prune, const QueueScope *scope);
// Removes the other schedules of a source that are in scope. Returns their names in order.
Rows remove_others_of(const text *source, Datum names, const QueueScope *scope);

}  // namespace jobq
