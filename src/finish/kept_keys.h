// Keys that outlive their jobs (unique_for). They stand in jobq.kept_keys, apart from the jobs, which may be
// deleted meanwhile. Rows are added and, when their time is over, deleted; nothing makes them unique, so that whoever
// ends a job, the rescue above all, waits for nobody and cannot fail for them.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "row/jobs_table.h"

namespace jobq {

struct KeptKey {
    text *queue;
    text *unique_key;
    int64 job_id;
    TimestampTz until;
};

// Whether the job in table.row, which finishes now, has a key that outlives it; and that key, in memory of its own.
bool keeps_key(const JobsTable &jobs);
KeptKey kept_key(const JobsTable &jobs, TimestampTz now);

// Those below are called inside with_spi(), but for any_kept_key().
void keep_keys(const KeptKey *keys, int count);

// Jobs that have finished hold their keys themselves again: what they had kept goes, unless somebody holds those rows.
void drop_own_kept_keys(Datum *ids, int count);
// No job is left.
void drop_all_kept_keys();

// False when the table is empty, whatever the snapshot: then nobody need look into it. Next to free.
bool any_kept_key();

// Deletes some of those whose time is over. Returns whether there may be more.
bool prune_kept_keys(TimestampTz now, int batch);

}  // namespace jobq
