// Parts of SQL statements that select and lock jobs before a function changes them at a caller's request, for example
// to retry or cancel them. Use them inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/job.h"

namespace jobq {

// Number of jobs that were changed, and the status of the last of these jobs.
struct Operated {
    int64 count;
    core::JobStatus status;
};

// The columns of the selected jobs. kLockedQueue: the queue, or the original queue if the job is in a dead-letter
// queue. kLockedWantsKey: the unique key that the job does not hold but would need if it became unfinished again.
// kLockedLine: the number of the group in which the job would wait for its turn.
enum LockedColumn { kLockedId = 1, kLockedQueue, kLockedWantsKey, kLockedIsDeadLetter, kLockedLine };
#define LOCKED_COLUMNS                                                                                                \
    "j.id, coalesce(j.dead_from, j.queue), CASE WHEN j._holds_key IS NOT TRUE THEN j.unique_key END, j.dead_from IS " \
    "NOT NULL, CASE WHEN j.group_key IS NOT NULL AND j._group_active IS NULL "                                        \
    "THEN jobq.group_of(coalesce(j.dead_from, j.queue), j.group_key) END"

// SQL condition that selects the jobs that have no unique key, already hold their unique key, or could get it at the
// time `now`. A job could get the key of an expired holder, unless this holder will keep the key (unique_for).
#define KEY_IS_FREE(now)                                                                         \
    "(j.unique_key IS NULL OR j._holds_key "                                                     \
    "OR NOT EXISTS (SELECT FROM jobq.jobs h WHERE h._holds_key AND h.unique_key = j.unique_key " \
    "AND h.queue COLLATE \"C\" = coalesce(j.dead_from, j.queue) "                                \
    "AND (h.expires_at IS NULL OR h.expires_at > " now                                           \
    " OR h.unique_for IS NOT NULL)) "                                                            \
    "AND NOT EXISTS (SELECT FROM jobq.kept_keys k WHERE k.unique_key = j.unique_key "            \
    "AND k.queue = coalesce(j.dead_from, j.queue) AND k.kept_until > " now " AND k.job_id <> j.id))"

// is_locked() returns whether there is a row of the job with this id, and locked_row() returns the row. The rows must
// be in the order of their ids.
bool is_locked(const Rows &locked, int64 id);
Row locked_row(const Rows &locked, int64 id);

}  // namespace jobq
