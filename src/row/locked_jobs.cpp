// See locked_jobs.h.
#include "compat/pg.h"

#include "row/locked_jobs.h"
#include "table/table.h"

namespace jobq {

Row locked_row(const Rows &locked, int64 id) {
    uint64 low = 0;
    uint64 high = locked.size();
    while (low < high) {
        const uint64 middle = (low + high) / 2;
        if (locked[middle].int64_at(kLockedId) < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == locked.size() || locked[low].int64_at(kLockedId) != id) key_was_changed(id);
    return locked[low];
}

}  // namespace jobq
