// See zones.h. The server loads a zone once per session and keeps it.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "schedules/timing_policy.h"
#include "schedules/zones.h"

extern "C" {
#include "pgtime.h"
}

namespace jobq {

namespace {

static_assert(core::unix_second_of(0) == int64{POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE} * SECS_PER_DAY);

// Cache of the zones that have been found, identified by their addresses in the server's memory. It avoids searches in
// the directory of all zones, which take at least a tenth of a second.
struct KnownZone {
    const pg_tz *zone;
};
Notes<KnownZone> known = {};

bool is_known(const pg_tz *zone) {
    for (int i = 0; i < known.count; i++)
        if (known.items[i].zone == zone) return true;
    return false;
}

void remember(const pg_tz *zone) {
    MemoryContext outer = MemoryContextSwitchTo(TopMemoryContext);
    known.add({zone});
    MemoryContextSwitchTo(outer);
}

bool is_listed(const char *name) {
    pg_tzenum *list = pg_tzenumerate_start();
    bool found = false;
    for (pg_tz *zone = pg_tzenumerate_next(list); zone != nullptr && !found; zone = pg_tzenumerate_next(list)) {
        CHECK_FOR_INTERRUPTS();
        found = pg_strcasecmp(pg_get_timezone_name(zone), name) == 0;
    }
    pg_tzenumerate_end(list);
    return found;
}

core::ZoneSpan span_at(const void *data, int64 second) {
    auto *zone = static_cast<pg_tz *>(const_cast<void *>(data));
    const pg_time_t at = second;
    long offset = 0, offset_after = 0;
    int is_dst = 0, is_dst_behind = 0;
    pg_time_t end = 0;
    int found = pg_next_dst_boundary(&at, &offset, &is_dst, &end, &offset_after, &is_dst_behind, zone);
    if (found == 0) {
        // pg_next_dst_boundary() returns 0 not only if the zone has no further changes, but also at exactly the last
        // change that the zone's file lists. One second later, the server uses the rule that follows the listed
        // changes.
        const pg_time_t behind = at + 1;
        long offset_then = 0;
        found = pg_next_dst_boundary(&behind, &offset_then, &is_dst, &end, &offset_after, &is_dst_behind, zone);
    }
    return {found == 1 ? int64{end} : core::kEndOfTime, static_cast<int32>(offset)};
}

}  // namespace

core::Zone find_zone(std::string_view name) {
    char *given = pnstrdup(name.data(), name.size());
    pg_tz *zone = name.empty() || name.size() > TZ_STRLEN_MAX ? nullptr : pg_tzset(given);
    if (zone == nullptr || (!is_known(zone) && !is_listed(pg_get_timezone_name(zone))))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"timezone\" is not the name of a time zone: \"%.*s\"", shown_bytes(name),
                               name.data()),
                        errhint("Use a name from the view pg_timezone_names, such as Europe/Berlin.")));
    if (!is_known(zone)) remember(zone);
    pfree(given);
    return {zone, span_at};
}

}  // namespace jobq
