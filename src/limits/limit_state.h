// The state of limits (core/limit.h) in shared memory: which slots are free, and how many tokens each bucket has.
//
// The information about slots is only a hint; the rows of jobq.jobs are authoritative (limits/limit_slots.h). A claim
// checks each slot number that it gets from this module, because another job may hold the slot. The information that a
// limit is full is not checked, so it expires after at most one minute. Two rules hold:
//  - A freed slot is published after the transaction that freed it has ended, so that other sessions find it free.
//  - Each slot has a bound, which lets a claim skip older index entries: a job that holds the slot never has a
//    jobs._slot_seq below the bound. When a claim that took the slot commits, it raises the bound to its own
//    jobs._slot_seq, unless another claim has taken the slot since. This is correct because the claim has found no
//    other holder, except jobs whose slots its own transaction has released.
// The numbers of tokens are authoritative, because they are stored only here. A spent token stays spent, even after a
// rollback. A clean shutdown saves the buckets for the next start (limits/bucket_file.h). A bucket is empty after a
// crash, a promotion, or a change of the rate.
//
// The table has room for jobq.max_limits limits. If the set to which a new limit belongs (shmem/set_table.h) is full,
// the new limit replaces a limit without spent tokens, which does no harm, or else a limit with spent tokens. When a
// replaced limit is used again, its new bucket contains at most as many tokens as the old bucket would contain. The
// same holds for every other new bucket of the same queue.
//
// If the library is not preloaded, there is no such state, and limits cannot have rates.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// Returns whether the limit is known to have no free slot. If it returns true, waiting workers are woken up when the
// next slot of the limit becomes free.
bool limit_is_full(int64 limit);

// Returns the number of a slot that may be free, or 0 if no such number is known. No other session gets the same
// number.
int32 take_free_number(int64 limit);
// Returns whether no free slot number is known although the limit may have free slots. In this case, the caller
// searches for more numbers than it needs, so that other workers need not search.
bool free_numbers_unknown(int64 limit);
// Puts back a number that the caller did not use.
void return_free_number(int64 limit, int32 number);

// Begins a search for free slot numbers. Sets *number to the number at which to begin, between 1 and max_running, which
// is where the last search ended. Returns a ticket for end_slot_search(), or 0 if the result cannot be stored.
uint64 begin_slot_search(int64 limit, int32 max_running, int32 *number);
// Stores the numbers that the search has found and the number at which it ended. `all` means that the search has
// checked every number and no other number is free.
void end_slot_search(int64 limit, uint64 ticket, const int32 *numbers, int count, bool all, int32 end);
// Maximum number of free numbers that a search returns.
constexpr int kFreeNumbers = 32;

// Returns the bound of the slot, or 0 if it is unknown. No job that holds the slot has a jobs._slot_seq below the
// bound. The caller must hold the lock on the slot.
int64 slot_bound(int64 slot);
// Returns the lowest value of jobs._slot_seq that a job taking the slot may have.
int64 next_slot_seq(int64 slot, TimestampTz now);

// Records that the current transaction takes a slot. `key` is empty for a slot of the whole queue.
void slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq);

// Raises the bounds of the slots that the committed transaction took. Called by main/jobq.cpp.
void raise_slot_bounds();  // call it after other sessions can see the transaction

// Functions that wake up workers when slots become free: the workers that wait for jobs of one queue, or all workers.
struct SlotWaking {
    void (*queue)(const char *name);
    void (*all)();
};
// Publishes the slots that the transaction has freed. Call it when other sessions find these slots free.
void publish_freed_slots(const SlotWaking &wake);
// Publishes the slots that the aborted transaction or subtransaction had taken. Call it after the rollback. Publishing
// slots that are not free does no harm.
void publish_slots_not_taken(const SlotWaking &wake);

// Takes a token of the limit. If there is none, returns false and sets *due to the time of the next token. `queue` is
// the queue_limit_id of the queue that the limit belongs to.
bool spend_token(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);
void return_spent_token(int64 limit, const core::Rate &rate);
// Returns how many tokens there are and sets *due to the time of the next token.
int32 tokens_of(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);
// Returns the same as tokens_of() without changing the bucket, even if the stored bucket has a different rate.
int32 peek_tokens(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);

// Forgets which slots of this session's database are free and which jobs wait for a slot. Raises no error.
void forget_slots();

// main/jobq.cpp calls these functions for this part of the shared memory.
Size limits_size();
void make_limits(void *memory, bool fresh);
SharedUsage limits_usage();

}  // namespace jobq
