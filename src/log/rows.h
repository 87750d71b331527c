// Checks and reads results of SQL statements.
#pragma once

#include "compat/pg.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "core/job.h"
#include "log/transaction_log.h"

namespace jobq {

// Raises an error unless a statement has changed as many rows as expected. A user's trigger or rule might have
// suppressed changes.
inline void require_changed(int64 changed, int64 expected) {
    if (changed == expected) return;
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                    errmsg("a statement on jobq's tables changed %lld rows instead of %lld",
                           static_cast<long long>(changed), static_cast<long long>(expected)),
                    errhint("Check whether a trigger or rule on jobq.jobs or jobq.attempts suppresses changes.")));
}

// Returns the values of the first column, which cannot be NULL. The array is allocated in the current memory context.
inline Datum *first_column(const Rows &rows) {
    auto *values = allocate_array<Datum>(rows.size());
    for (uint64 i = 0; i < rows.size(); i++) values[i] = rows[i].get(1);
    return values;
}

// Returns the status in a column of type text.
inline core::JobStatus status_at(const Row &row, int column) {
    const std::string_view label = row.text_at(column);
    core::JobStatus status = core::JobStatus::Pending;
    if (!core::parse_status(label, &status))
        elog(ERROR, "jobq: unknown status \"%.*s\"", static_cast<int>(label.size()), label.data());
    return status;
}

}  // namespace jobq
