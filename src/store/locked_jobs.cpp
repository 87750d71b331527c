// See locked_jobs.h.
#include "pg/pg.h"

#include "pg/args.h"
#include "pg/table.h"
#include "shared/counting.h"
#include "shared/publish.h"
#include "store/groups.h"
#include "store/locked_jobs.h"
#include "store/rows.h"

namespace jobq {

// They are in the order of their ids.
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

Datum ids_of(const Rows &locked) {
    auto *ids = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (locked.size() + 1), MCXT_ALLOC_HUGE));
    for (uint64 i = 0; i < locked.size(); i++) ids[i] = locked[i].get(kLockedId);
    return array_of(ids, static_cast<int>(locked.size()), INT8OID);
}

Rows count_changed(const Rows &locked, const Rows &changed) {
    for (uint64 i = 0; i < changed.size(); i++) {
        const Row before = locked_row(locked, changed[i].int64_at(1));
        const core::JobStatus now = status_at(changed[i], 2);
        count_at_commit(before.text_at(kLockedQueue), status_at(before, kLockedStatus), now, 1);
        if (!core::is_finished(now)) continue;
        publish_finished_at_commit(changed[i].int64_at(1));
        if (!before.is_null(kLockedGroup)) publish_group_free(before.int64_at(kLockedGroup));
    }
    return changed;
}

}  // namespace jobq
