// Unique keys that outlive their jobs (unique_for). They are kept in jobq.kept_keys, apart from the jobs, which may be
// deleted in the meantime. Rows are inserted when a job finishes, and deleted when the key expires. No index makes the
// keys unique, so that a session that ends a job (for example in the rescue) waits for no other session and cannot fail
// because of a kept key.
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

// The functions below, except any_kept_key(), are called inside with_spi().
void keep_keys(const KeptKey *keys, int count);

// Deletes the kept keys of these jobs, which had finished and are now unfinished again, so their own rows hold the
// keys. Skips rows that other sessions have locked.
void drop_own_kept_keys(Datum *ids, int count);
// Deletes all kept keys, because no jobs are left.
void drop_all_kept_keys();

// Returns false if the table is empty, whatever the snapshot, so that the caller need not read it. Costs next to
// nothing.
bool any_kept_key();

// Deletes up to `batch` expired keys. Returns whether there may be more.
bool prune_kept_keys(TimestampTz now, int batch);

}  // namespace jobq
