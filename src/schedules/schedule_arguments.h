// Reads and checks a schedule that is given as arguments of jobq_schedule or as a JSON object with the argument names
// as keys.
#pragma once

#include "compat/pg.h"
#include "queues/scope.h"
#include "schedules/schedule.h"

namespace jobq {

// Returns the schedule name that is given as an argument.
text *name_argument(FunctionCallInfo fcinfo, int n);
// Checks the name of a source.
void check_source(std::string_view source);

// Returns the schedule in the arguments of jobq_schedule. Raises 22004, 22023, 42602, or a similar error for invalid
// arguments, and 42501 for a queue that is out of scope.
ScheduleSpec schedule_of_arguments(FunctionCallInfo fcinfo, const QueueScope *scope, TimestampTz now);
// Returns the schedule in a JSON object, whose keys are the argument names except `source`. Raises the same errors as
// schedule_of_arguments().
ScheduleSpec schedule_of_object(JsonbContainer *object, text *source, const QueueScope *scope, TimestampTz now);

}  // namespace jobq
