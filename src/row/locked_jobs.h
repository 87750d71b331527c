// Jobs that are about to be changed at a caller's request. A statement that selects them locks them first. Must be used
// inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"

namespace jobq {

// Number of jobs changed, and the status of the last one.
struct Operated {
    int64 count;
    core::JobStatus status;
};

// The columns of the locked jobs. The queue of a dead letter is its original queue. The key is the unique key that the
// job has given up and would need again. The line is the number of the group whose line the job would enter.
enum LockedColumn { kLockedId = 1, kLockedQueue, kLockedWantsKey, kLockedIsDeadLetter, kLockedLine };
#define LOCKED_COLUMNS                                                                                                \
    "j.id, coalesce(j.dead_from, j.queue), CASE WHEN j._holds_key IS NOT TRUE THEN j.unique_key END, j.dead_from IS " \
    "NOT NULL, CASE WHEN j.group_key IS NOT NULL AND j._group_active IS NULL "                                        \
    "THEN jobq.group_of(coalesce(j.dead_from, j.queue), j.group_key) END"

// Selects jobs that hold their unique key or could get it now.
#define KEY_IS_FREE(now)                                                                         \
    "(j.unique_key IS NULL OR j._holds_key "                                                     \
    "OR NOT EXISTS (SELECT FROM jobq.jobs h WHERE h._holds_key AND h.unique_key = j.unique_key " \
    "AND h.queue COLLATE \"C\" = coalesce(j.dead_from, j.queue)) "                               \
    "AND NOT EXISTS (SELECT FROM jobq.kept_keys k WHERE k.unique_key = j.unique_key "            \
    "AND k.queue = coalesce(j.dead_from, j.queue) AND k.kept_until > " now " AND k.job_id <> j.id))"

// Returns the row of the job. The rows must be in the order of their ids.
Row locked_row(const Rows &locked, int64 id);

}  // namespace jobq
