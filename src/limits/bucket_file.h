// The token buckets that a server leaves in a file when it is shut down, for its next start.
//
// The file is valid only for the shutdown that wrote it: it names the shutdown checkpoint, which is no longer the
// latest checkpoint as soon as the server has started. So after a crash, on a standby, and in a restored backup the
// buckets are empty.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"

namespace jobq {

struct KeptBucket {
    Oid database;  // InvalidOid: none
    int64 limit;
    int64 queue;
    TimestampTz used_at;
    core::Rate rate;
    core::Bucket bucket;
};

// The buckets of one set of the table in limit_state.cpp.
struct KeptSet {
    int32 set;
    KeptBucket buckets[8];
    core::ForgottenBuckets forgotten;
};

// Writes the file. Calls write(file), which adds the sets and returns false if that fails. `since` is the time at which
// the first bucket of the server began to fill. The file is valid only if the server was shut down cleanly.
void write_bucket_file(TimestampTz since, bool (*write)(FILE *file));
bool write_kept_set(FILE *file, const KeptSet &set);

// Calls keep(set) for each set in the file and deletes the file. Returns `since`, or 0 if there is no valid file. If it
// returns 0, the caller must discard the sets that keep() was called with.
TimestampTz read_bucket_file(void (*keep)(const KeptSet &set));

}  // namespace jobq
