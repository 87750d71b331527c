// Unique jobs: who has a key. Of the unfinished jobs of a queue one may have a key: the index on jobq.jobs.unique_key
// sees to it.
#pragma once

#include "compat/pg.h"
#include "core/job.h"

#include <string_view>

namespace jobq {

// A key that a job is to have, and who has it.
struct WantedKey {
    text *queue;
    text *unique_key;
    int64 own;               // the job, 0: a new one. A key that it has kept itself is free to it
    int64 holder;            // out: the job that has the key, 0: none
    core::JobStatus status;  // out: of an unfinished holder
    TimestampTz until;       // out: until when a finished holder keeps the key; 0: the holder is unfinished
};

// Fills in who has the keys, by a fresh snapshot or the transaction's. Inside with_spi().
void find_holders(WantedKey *keys, int count, TimestampTz now);

// The same for finished jobs that keep a key, of the keys that have no unfinished holder.
void find_kept(WantedKey *keys, int count, TimestampTz now);
// The same by what is committed now, whatever the snapshot.
void find_kept_by_latest(WantedKey *keys, int count, TimestampTz now);
// 40001: that is so since the transaction's snapshot.
[[noreturn]] void kept_since_snapshot();

// 23505, naming the key and who has it. `hint`: what to do when that job is unfinished.
[[noreturn]] void key_taken(const WantedKey &key, const char *hint);

// Checks the key of a job that plain SQL has inserted or changed: 23505 if a finished job keeps that key, or 40001 in
// REPEATABLE READ and above if it has kept the key since the snapshot. Inside with_spi().
void refuse_kept_key(int64 job, std::string_view queue, std::string_view unique_key);

}  // namespace jobq
