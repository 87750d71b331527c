// See locked_jobs.h.
#include "compat/pg.h"

#include "row/locked_jobs.h"
#include "table/table.h"

namespace jobq {

namespace {

// Returns the position of the first row whose id is not less than `id`.
uint64 position_of(const Rows &locked, int64 id) {
    uint64 low = 0;
    uint64 high = locked.size();
    while (low < high) {
        const uint64 middle = (low + high) / 2;
        if (locked[middle].int64_at(kLockedId) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

}  // namespace

bool is_locked(const Rows &locked, int64 id) {
    const uint64 position = position_of(locked, id);
    return position < locked.size() && locked[position].int64_at(kLockedId) == id;
}

Row locked_row(const Rows &locked, int64 id) {
    if (!is_locked(locked, id)) key_was_changed(id);
    return locked[position_of(locked, id)];
}

}  // namespace jobq
