// Unique jobs: finds the holders of unique keys. At most one unfinished job of a queue can hold a given key, because of
// the unique index on jobq.jobs.unique_key.
#pragma once

#include "compat/pg.h"
#include "core/job.h"

#include <string_view>

namespace jobq {

// A key that a job wants, and the holder of the key.
struct WantedKey {
    text *queue;
    text *unique_key;
    int64 own;               // the job that wants the key; 0: a new job. A key kept by this job counts as free
    int64 holder;            // out: the job that has the key; 0: none
    core::JobStatus status;  // out: status of an unfinished holder
    bool expired;            // out: the unfinished holder has expired, so it will not run
    TimestampTz until;       // out: time until which a finished holder keeps the key; 0: the holder is unfinished
};

// Looks up the jobs that hold the keys and stores them as holders in `keys`. Uses a fresh snapshot or, in REPEATABLE
// READ and above, the transaction's snapshot. Call it inside with_spi().
void find_holders(WantedKey *keys, int count, TimestampTz now);

// Like find_holders(), but looks up only finished jobs that keep one of the keys, and only for the keys without an
// unfinished holder.
void find_kept(WantedKey *keys, int count, TimestampTz now);
// Like find_kept(), but reads everything that has been committed so far, regardless of the transaction's snapshot.
void find_kept_by_latest(WantedKey *keys, int count, TimestampTz now);
// Cancels the unfinished holder of the key if it has expired but the duty "expire" has not canceled it yet. The key is
// then free, unless the holder keeps it (unique_for). Call it inside with_spi().
void expire_holder(const WantedKey &key, TimestampTz now);

// Raises 40001. Call it if a job has finished and kept its key since the transaction's snapshot was taken.
[[noreturn]] void kept_since_snapshot();

// Raises 23505 with the key and its holder. `hint` tells the user what to do if the holder is unfinished.
[[noreturn]] void key_taken(const WantedKey &key, const char *hint);

// Checks the key of a job that plain SQL has inserted or changed. Raises 23505 if a finished job keeps this key, or
// 40001 in REPEATABLE READ and above if that job has finished since the snapshot was taken. Call it inside with_spi().
void refuse_kept_key(int64 job, std::string_view queue, std::string_view unique_key);

}  // namespace jobq
