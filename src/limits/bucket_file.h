// Saves the token buckets of rate limits in a file when the server shuts down, and reads the file when the server
// starts again.
//
// The file contains the location of the shutdown checkpoint. The file is valid only while this checkpoint is the latest
// checkpoint, that is, until the server has started again. Therefore, the buckets are empty after a crash, on a
// standby, and in a restored backup.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"

namespace jobq {

struct KeptBucket {
    Oid database;  // InvalidOid if the entry is unused
    int64 limit;
    int64 queue;
    TimestampTz used_at;
    core::Rate rate;
    core::Bucket bucket;
};

// The buckets in one set of the hash table of limits (limit_state.cpp).
struct KeptSet {
    int32 set;
    KeptBucket buckets[8];
    core::ForgottenBuckets forgotten;
};

// Writes the file. Calls write(file), which writes the sets and returns false if it fails. `since` is the time at which
// the first bucket of the server began to fill. The file is valid only if the server was shut down cleanly.
void write_bucket_file(TimestampTz since, bool (*write)(FILE *file));
bool write_kept_set(FILE *file, const KeptSet &set);

// Calls keep(set) for each set in the file, deletes the file, and returns the file's `since`. Returns 0 if there is no
// valid file; the caller must then discard the sets that were passed to keep().
TimestampTz read_bucket_file(void (*keep)(const KeptSet &set));

}  // namespace jobq
