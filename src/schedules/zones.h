// Time zones of the server's database, for the calendar.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "schedules/calendar_policy.h"

namespace jobq {

// The zone of that name in pg_timezone_names, whatever the case of its letters. 22023 for any other: the server would
// take "Foo5" for a zone five hours behind UTC.
core::Zone find_zone(std::string_view name, ArgumentName argument);

inline int64 unix_seconds(TimestampTz time) {
    constexpr int64 epoch = int64{POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE} * SECS_PER_DAY;
    const int64 seconds = time >= 0 ? time / USECS_PER_SEC : (time - USECS_PER_SEC + 1) / USECS_PER_SEC;
    return seconds + epoch;
}
inline TimestampTz timestamp_of(int64 unix_seconds) {
    constexpr int64 epoch = int64{POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE} * SECS_PER_DAY;
    return (unix_seconds - epoch) * USECS_PER_SEC;
}

}  // namespace jobq
