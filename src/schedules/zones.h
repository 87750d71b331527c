// Looks up time zones in the server's time zone database.
#pragma once

#include "compat/pg.h"
#include "schedules/calendar_policy.h"

namespace jobq {

// Returns the zone with this name in pg_timezone_names; case does not matter. Raises 22023 for any other name, because
// the server would accept "Foo5" as a zone five hours behind UTC.
core::Zone find_zone(std::string_view name);

}  // namespace jobq
