// Small things that the statements of the store share.
#pragma once

#include "pg/pg.h"
#include "core/job.h"
#include "pg/spi.h"
#include "shared/counting.h"
#include "store/lanes.h"

namespace jobq {

// Raises unless the last run() changed exactly `expected` rows: a trigger or rule of somebody's kept one out.
inline void require_affected(int64 expected) {
    if (affected() == expected) return;
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                    errmsg("a statement on jobq's tables changed %lld rows instead of %lld",
                           static_cast<long long>(affected()), static_cast<long long>(expected)),
                    errhint("Is there a trigger or rule on jobq.jobs that suppresses changes, or changes ids?")));
}

// The status in a column of type text.
inline core::JobStatus status_at(const Row &row, int column) {
    char label[16] = {};
    const std::string_view value = row.text_at(column);
    memcpy(label, value.data(), Min(value.size(), sizeof(label) - 1));
    core::JobStatus status = core::JobStatus::Pending;
    if (!core::parse_status(label, &status)) elog(ERROR, "jobq: unknown status \"%s\"", label);
    return status;
}

// Counts jobs that a statement has deleted. Its rows have their queue and status at column `first` and the next.
inline void count_deleted_rows(const Rows &rows, int first) {
    for (uint64 i = 0; i < rows.size(); i++)
        count_deletes_at_commit(rows[i].text_at(first), status_at(rows[i], first + 1), 1);
}

// Tells of jobs that a statement has made claimable. Its rows end with id, queue, lane, priority and ready_at, the
// first of them at column `first`; those whose ready_at is NULL are not claimable.
inline void publish_ready_rows(const Rows &rows, int first) {
    for (uint64 i = 0; i < rows.size(); i++) {
        bool waits;
        const Datum ready_at = rows[i].get(first + 4, &waits);
        if (waits) continue;
        tell_ready(rows[i].text_at(first + 1), rows[i].int64_at(first + 2),
                   {DatumGetTimestampTz(ready_at), rows[i].int64_at(first), DatumGetInt16(rows[i].get(first + 3))});
    }
}
#define READY_COLUMNS "j.id, j.queue, j.lane, j.priority, j.ready_at"

}  // namespace jobq
