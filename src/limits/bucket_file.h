// Saves the token buckets in a file when the server shuts down, and reads them at the next start.
//
// The file contains the location of the shutdown checkpoint and is valid only while that is the latest checkpoint,
// which it no longer is once the server has started. So the buckets are empty after a crash, on a standby, and in a
// restored backup.
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

// The buckets in one set of the hash table in limit_state.cpp.
struct KeptSet {
    int32 set;
    KeptBucket buckets[8];
    core::ForgottenBuckets forgotten;
};

// Writes the file. Calls write(file), which writes the sets and returns false if writing fails. `since` is the time at
// which the first bucket of the server began to fill. The file is valid only if the server was shut down cleanly.
void write_bucket_file(TimestampTz since, bool (*write)(FILE *file));
bool write_kept_set(FILE *file, const KeptSet &set);

// Calls keep(set) for each set in the file and deletes the file. Returns `since`, or 0 if there is no valid file. If it
// returns 0, the caller must discard the sets that keep() was called with.
TimestampTz read_bucket_file(void (*keep)(const KeptSet &set));

}  // namespace jobq
