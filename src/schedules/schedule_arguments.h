// What jobq_schedule is told: its arguments, or a JSON object with their names as keys; checked.
#pragma once

#include "compat/pg.h"
#include "queues/scope.h"
#include "schedules/schedule.h"

namespace jobq {

// The name of a schedule that a call names.
text *name_argument(FunctionCallInfo fcinfo, int n);
// The name of a source.
void check_source(std::string_view source);

// 22004, 22023, 42602 and so on for what cannot be; 42501 for a queue that is out of scope.
ScheduleSpec schedule_of_arguments(FunctionCallInfo fcinfo, const QueueScope *scope, TimestampTz now);
// The same of an object that has them as its keys, but for the source.
ScheduleSpec schedule_of_object(JsonbContainer *object, text *source, const QueueScope *scope, TimestampTz now);

}  // namespace jobq
