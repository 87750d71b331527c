// Unique jobs: finds the holders of unique keys. At most one unfinished job of a queue can have a key, because of the
// unique index on jobq.jobs.unique_key.
#pragma once

#include "compat/pg.h"
#include "core/job.h"

#include <string_view>

namespace jobq {

// A key that a job wants, and the holder of the key.
struct WantedKey {
    text *queue;
    text *unique_key;
    int64 own;               // the job that wants the key, 0: a new job. A key that this job itself keeps counts as
                             // free
    int64 holder;            // out: the job that has the key, 0: none
    core::JobStatus status;  // out: status of an unfinished holder
    TimestampTz until;       // out: until when a finished holder keeps the key; 0: the holder is unfinished
};

// Sets the holders of the keys, under a fresh snapshot, or under the transaction's snapshot in REPEATABLE READ and
// above. Call it inside with_spi().
void find_holders(WantedKey *keys, int count, TimestampTz now);

// Like find_holders(), but only looks up finished jobs that keep a key, for the keys without an unfinished holder.
void find_kept(WantedKey *keys, int count, TimestampTz now);
// Like find_kept(), but reads what is committed now, whatever the transaction's snapshot.
void find_kept_by_latest(WantedKey *keys, int count, TimestampTz now);
// Raises 40001, because a job has finished and kept its key since the transaction's snapshot.
[[noreturn]] void kept_since_snapshot();

// Raises 23505 with the key and its holder. `hint` tells the user what to do if the holder is unfinished.
[[noreturn]] void key_taken(const WantedKey &key, const char *hint);

// Checks the key of a job that plain SQL has inserted or changed. Raises 23505 if a finished job keeps this key, or
// 40001 in REPEATABLE READ and above if that job has finished since the snapshot. Call it inside with_spi().
void refuse_kept_key(int64 job, std::string_view queue, std::string_view unique_key);

}  // namespace jobq
