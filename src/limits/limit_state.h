// The state of limits (core/limit.h) in shared memory: which slots are free, and how many tokens each bucket has.
//
// The information about slots is only a hint, because jobq.jobs is authoritative (limits/limit_slots.h). A claim checks
// each slot number that it gets here, because the slot may be taken. A claim relies on the information that a limit is
// full, which expires after at most one minute. Two rules hold:
//  - A freed slot is published after the transaction that freed it has ended, so that other sessions find it free.
//  - Each slot has a bound: no job that holds the slot has an index entry with a lower jobs._slot_seq. The commit of a
//    claim that took the slot raises the bound, unless another claim has taken the slot since. This is correct because
//    the claim has found no holder, except for entries of jobs whose slot its own transaction has given back.
// The numbers of tokens are authoritative, because they are stored only here. A spent token stays spent, even after a
// rollback. A clean shutdown saves the buckets for the next start (limits/bucket_file.h). A bucket is empty after a
// crash, a promotion, or a change of the rate.
//
// The table has room for jobq.max_limits limits. If the set for a new limit (shmem/set_table.h) has no free place, the
// new limit replaces a limit without spent tokens, which does no harm. If there is none, it replaces a limit with spent
// tokens. If the replaced limit is used again, its new bucket is not fuller than the old one would be, and neither is
// any other new bucket of the same queue.
//
// Without preload there is no information, and limits cannot have rates.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"
#include "shmem/memory.h"

#include <string_view>

namespace jobq {

// Returns whether the limit is known to have no free slot. If so, the next slot that becomes free wakes up waiting
// workers, because the caller does not claim now.
bool limit_is_full(int64 limit);

// Returns the number of a slot that may be free, and gives it to no other session. Returns 0 if none is known.
int32 take_free_number(int64 limit);
// Returns whether no free number is known although the limit may have free slots. Then the caller searches for more
// numbers than it needs, so that waiting workers need not try in vain.
bool free_numbers_unknown(int64 limit);
// Returns a number that the caller did not use.
void return_free_number(int64 limit, int32 number);

// Begins a search for free numbers. *number is where it begins, between 1 and max_running: where the last search ended.
// Returns a ticket for end_slot_search(), or 0 if the result cannot be stored.
uint64 begin_slot_search(int64 limit, int32 max_running, int32 *number);
// Stores the numbers that the search has found, and where it ended. `all`: the search has checked every number, and no
// other number is free.
void end_slot_search(int64 limit, uint64 ticket, const int32 *numbers, int count, bool all, int32 end);
// Maximum number of free numbers that a search returns.
constexpr int kFreeNumbers = 32;

// Returns the bound of the slot, or 0 if it is unknown: no index entry of a job that holds the slot has a lower
// jobs._slot_seq. The caller must hold the lock on the slot.
int64 slot_bound(int64 slot);
// Returns the lowest jobs._slot_seq that a job which takes the slot may have.
int64 next_slot_seq(int64 slot, TimestampTz now);

// Records that the current transaction takes a slot. `key` is empty for a slot of the whole queue.
void slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq);

// Raises the bounds of the slots that the committed transaction took. Called by main/jobq.cpp.
void raise_slot_bounds();  // after other sessions can see the transaction

// Functions that wake up the workers waiting for jobs of a queue, or all workers, when slots become free.
struct SlotWaking {
    void (*queue)(const char *name);
    void (*all)();
};
// Call it when the workers that it wakes up can take the slots.
void publish_freed_slots(const SlotWaking &wake);
// Call it after a rollback, also to a savepoint. Publishing slots that are not free does no harm.
void publish_slots_not_taken(const SlotWaking &wake);

// Takes a token of the limit. Returns false if there is none before *due. `queue` is the queue_limit_id of the queue
// that the limit belongs to.
bool spend_token(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);
void return_spent_token(int64 limit, const core::Rate &rate);
// Returns how many tokens there are. *due is the time of the next one.
int32 tokens_of(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);
// Does the same without changing anything, even if the stored bucket has another rate.
int32 peek_tokens(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);

// Forgets which slots of this session's database are free, and which jobs wait for one. Raises no error.
void forget_slots();

// The shared memory of this file, for main/jobq.cpp.
Size limits_size();
void make_limits(void *memory, bool fresh);
SharedUsage limits_usage();

}  // namespace jobq
