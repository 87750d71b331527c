// Time zones of the server's database, for the calendar.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "schedules/calendar_policy.h"

namespace jobq {

// The zone of that name in pg_timezone_names, whatever the case of its letters. 22023 for any other: the server would
// take "Foo5" for a zone five hours behind UTC.
core::Zone find_zone(std::string_view name, ArgumentName argument);

}  // namespace jobq
