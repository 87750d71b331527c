// Unique keys that outlive their jobs (unique_for). They are kept in jobq.kept_keys instead of the rows of the jobs,
// because the jobs can be deleted before the keys expire. Rows are inserted when a job finishes, and deleted when the
// key expires. There is no unique index on the keys, so that a session that ends a job (for example, in the rescue)
// does not wait for other sessions and cannot fail because of a kept key.
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

// keeps_key() returns whether the job in table.row, which is about to finish, has a key that outlives it. kept_key()
// returns a copy of that key.
bool keeps_key(const JobsTable &jobs);
KeptKey kept_key(const JobsTable &jobs, TimestampTz now);

// Call the functions below, except any_kept_key(), inside with_spi().
void keep_keys(const KeptKey *keys, int count);

// Deletes the kept keys of these jobs. The jobs had finished but are unfinished again, so their own rows now hold the
// keys. Skips rows that other sessions have locked.
void drop_own_kept_keys(Datum *ids, int count);
// Deletes all kept keys. Call it when no jobs are left.
void drop_all_kept_keys();

// Returns false if the table is empty, so that the caller need not read it. The check does not depend on the snapshot
// and costs almost nothing.
bool any_kept_key();

// Deletes up to `batch` expired keys. Returns whether there might be more expired keys.
bool prune_kept_keys(TimestampTz now, int batch);

}  // namespace jobq
