// See queue_names.h.
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/spi.h"
#include "lanes/lanes.h"
#include "lanes/queue_names.h"
#include "row/owner.h"

#include <algorithm>

namespace jobq {

namespace {

// Reads one row per queue, not one row per lane, because the index finds the next queue directly.
Statement read_names = {
    R"(WITH RECURSIVE q AS (
           (SELECT d.queue FROM jobq.lane_directory d ORDER BY d.queue LIMIT 1)
           UNION ALL
           SELECT (SELECT d.queue FROM jobq.lane_directory d WHERE d.queue > q.queue ORDER BY d.queue LIMIT 1)
           FROM q WHERE q.queue IS NOT NULL)
       SELECT q.queue FROM q WHERE q.queue IS NOT NULL)",
    {}};

MemoryContext context = nullptr;
Names names = {};
uint64 version = 0;  // version_of_lanes() at the time of the last read; 0: not read yet

}  // namespace

Names names_of_all_queues() {
    const uint64 current = version_of_lanes();
    if (version == current) return names;
    MemoryContext fresh = nullptr;
    Names found = {};
    with_owner_spi([&] {
        Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
        const Rows rows = read(read_names, Params(), snapshot);
        fresh = AllocSetContextCreate(CacheMemoryContext, "jobq queue names", ALLOCSET_DEFAULT_SIZES);
        MemoryContext outer = MemoryContextSwitchTo(fresh);
        found.items = allocate_array<std::string_view>(rows.size());
        for (uint64 i = 0; i < rows.size(); i++) found.items[found.count++] = view(make_text(rows[i].text_at(1)));
        MemoryContextSwitchTo(outer);
        UnregisterSnapshot(snapshot);
    });
    std::sort(found.items, found.items + found.count);
    if (context != nullptr) MemoryContextDelete(context);
    context = fresh;
    names = found;
    version = current;
    return names;
}

}  // namespace jobq
