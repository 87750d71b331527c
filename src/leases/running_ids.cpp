// See running_ids.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "lanes/refresh.h"
#include "leases/running_ids.h"

namespace jobq {

RunningIds running_ids() {
    constexpr int kMost = core::kMaxEmptyRanges + 1;
    const core::EmptyRanges empty = refreshed_ranges(core::KeySpace::Running, core::kLastKey);
    ArrayColumn first(kMost), last(kMost);
    for (core::KeyRange keys = core::next_possible(empty, core::kFirstKey); keys.from < keys.to;
         keys = core::next_possible(empty, keys.to)) {
        first.add(Int64GetDatum(keys.from.id));
        last.add(Int64GetDatum(keys.to == core::kLastKey ? PG_INT64_MAX : keys.to.id - 1));
    }
    return {first.array(INT8OID), last.array(INT8OID)};
}

}  // namespace jobq
