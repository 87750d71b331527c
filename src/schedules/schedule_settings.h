// The rows of schedules: made, changed and removed. A change that commits tells the worker when the schedule is due.
// Inside with_spi(), with the owner's rights.
#pragma once

#include "compat/pg.h"
#include "queues/scope.h"
#include "schedules/schedule.h"

namespace jobq {

enum class Change { Unchanged, Created, Changed };
struct Scheduled {
    Change change;
    core::Maybe next_run;  // none: it is paused, or never runs again
};

// Makes a schedule what it is told, which was checked. The same expression, zone and bounds keep its next run; others
// compute it from now. Waits for who fires it. 42501 where it is one of a queue out of scope.
Scheduled put_schedule(const ScheduleSpec &spec, const QueueScope *scope, TimestampTz now);

// The schedule, locked; false: there is none in scope.
bool lock_schedule(const text *name, const QueueScope *scope, Schedule *schedule);

void remove_schedule(const text *name);
void pause_schedule(const text *name);
// It goes on from now.
void resume_schedule(const Schedule &schedule, TimestampTz now);

// Whether there are any of a queue; removes them. Locks them first. None where the extension has no schedules.
bool lock_schedules_of(const text *queue);
int64 remove_schedules_of(const text *queue);

// Two that set many do it one after the other, until the transaction ends. Returns when it is this one's turn. Who has
// certain queues waits for who has the same only, and keeps nobody else waiting.
void wait_for_other_sets(const QueueScope *scope);
// Locks those of these names, and with `prune` all of the source, as far as they are in scope.
void lock_set(const text *source, Datum names, bool prune, const QueueScope *scope);
// The names of those in scope that a source has besides some, in their order; removed.
Rows remove_others_of(const text *source, Datum names, const QueueScope *scope);

}  // namespace jobq
