// The state of limits (core/limit.h) in shared memory: which slots are free, and how many tokens each bucket has.
//
// The information about slots is only a hint; the rows of jobq.jobs are authoritative (limits/limit_slots.h). A claim
// checks each slot number that it gets from this module, because another job might hold the slot. The information that
// a limit is full is not checked, so it expires after at most one minute. Two rules hold:
//  - A freed slot is published after the transaction that freed it has ended, so that other sessions find it free.
//  - Each slot has a bound, which lets a claim skip older index entries: a job that holds the slot never has a
//    jobs._slot_seq below the bound. When a claim that took the slot commits, it raises the bound to its own
//    jobs._slot_seq, unless another claim has taken the slot in the meantime. This is correct because the claim has
//    checked that no other job holds the slot. The check ignores only jobs whose slots the claim's own transaction has
//    released.
// The numbers of tokens are authoritative, because they are stored only here. A spent token stays spent, even after a
// rollback. A clean shutdown saves the buckets for the next start (limits/bucket_file.h). A bucket is empty after a
// crash, a promotion, or a change of the rate.
//
// The table has room for jobq.max_limits limits. If the set to which a new limit belongs (shmem/set_table.h) is full,
// the new limit replaces a limit without spent tokens, which is harmless, or if there is none, a limit with spent
// tokens. When a replaced limit is used again, its new bucket contains at most as many tokens as the old bucket would
// contain. The same restriction applies to every other new bucket of the same queue.
//
// If the library is not preloaded, there is no such state, and limits cannot have rates.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// Returns whether the limit is known to have no free slot. If so, waiting workers are woken up when the next slot of
// the limit becomes free.
bool limit_is_full(int64 limit);

// Returns the number of a slot that might be free, or 0 if no such number is known. Gives each number to only one
// session.
int32 take_free_number(int64 limit);
// Returns whether no free slot number is known although the limit might have free slots. If so, the caller searches for
// more numbers than it needs, so that other workers need not search.
bool free_numbers_unknown(int64 limit);
// Gives back a slot number that take_free_number() returned and that the caller did not use. Returns whether a session
// has found the limit full in the meantime and might be waiting.
bool return_free_number(int64 limit, int32 number);

// Begins a search for free slot numbers. Sets *number to the slot number, between 1 and max_running, at which the
// caller must begin. This is the number at which the last search ended. Returns a ticket for end_slot_search(), or 0 if
// the result cannot be stored.
uint64 begin_slot_search(int64 limit, int32 max_running, int32 *number);
// Stores the numbers that the search has found and the number at which it ended. `all` means that the search has
// checked every number, so no numbers except the given ones are free.
void end_slot_search(int64 limit, uint64 ticket, const int32 *numbers, int count, bool all, int32 end);
// Maximum number of free slot numbers that a search stores.
constexpr int kFreeNumbers = 32;

// Returns the bound of the slot, or 0 if the bound is unknown. A job that holds the slot never has a jobs._slot_seq
// below the bound. The caller must hold the lock on the slot.
int64 slot_bound(int64 slot);
// Returns the minimum jobs._slot_seq for a job that takes the slot.
int64 next_slot_seq(int64 slot, TimestampTz now);

// Records that the current transaction takes a slot. `key` is empty if the slot is for the whole queue.
void slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq);

// Raises the bounds of the slots that the committed transaction took. main/jobq.cpp calls this function.
void raise_slot_bounds();  // call it after other sessions can see the transaction

// Functions to call when slots become free. queue() wakes up the workers that wait for jobs in one queue, and all()
// wakes up all workers.
struct SlotWaking {
    void (*queue)(const char *name);
    void (*all)();
};
// Publishes free slots, and wakes up the workers that might be waiting for these slots. If `committed` is true, these
// are the slots that the transaction has freed. Call the function when other sessions can see that these slots are
// free. Otherwise, these are the slots that the aborted transaction or subtransaction had taken. Call the function
// after the rollback. Publishing slots that are not free is harmless.
void publish_slots(bool committed, const SlotWaking &wake);

// Takes a token of the limit. If no token is left, returns false and sets *due to the time at which the next token
// becomes available. `queue` is the queue_limit_id of the queue to which the limit belongs, or `limit` itself if it
// belongs to no queue.
bool spend_token(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);
void return_spent_token(int64 limit, const core::Rate &rate);
// Returns how many tokens the limit has, and sets *due to the time at which the next token becomes available.
int32 tokens_of(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);
// Returns the same results as tokens_of(), but does not change the bucket, even if the stored bucket has a different
// rate.
int32 peek_tokens(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);

// Forgets which slots of this session's database are free and which jobs wait for a slot. Raises no error.
void forget_slots();

// main/jobq.cpp calls these functions to set up the state of limits in shared memory.
Size limits_size();
void make_limits(void *memory, bool fresh);
SharedUsage limits_usage();

}  // namespace jobq
