// What the sessions of a server know together of limits (core/limit.h): which slots are free, when the next
// token comes.
//
// Of slots these are hints; the truth is who holds them in jobq.jobs (limits/limit_slots.h). A number that is handed
// out here may be taken, and is looked at; that a limit is full is believed for a moment. Two things must hold:
//  - a slot that becomes free is told of after its transaction has ended, so that whoever hears of it finds it free;
//  - below the bound of a slot lies no entry of a job that holds it. It is raised when a claim commits that found none
//    but what its own transaction had given back, unless somebody has taken the slot since.
// Tokens are the truth, and exist nowhere else: what is spent stays spent. A shutdown keeps the buckets for the next
// start (limits/bucket_file.h). After any other end of the server, a promotion, or a change of the rate a bucket is
// empty. The table has room for jobq.max_limits limits. A full bucket makes room for a new
// limit without loss. If no bucket of the set is full, one that is not makes room: it comes back no fuller than it was,
// nor does a new bucket of the same queue begin fuller.
//
// Without preload nothing is known, and there are no rates.
#pragma once

#include "compat/pg.h"
#include "core/limit.h"

#include <string_view>

namespace jobq {

// Whether the limit is known to have no free slot. The caller, who will not claim then, is told of the next one.
bool limit_is_full(int64 limit);

// A number that may be free, which nobody else is given; 0: none is known.
int32 take_free_number(int64 limit);
// Whether nobody knows of a free number, nor that there is none: worth a search, so that who waits need not try.
bool free_numbers_unknown(int64 limit);
// It was not used.
void return_free_number(int64 limit, int32 number);

// A search for free numbers: begins at *number, 1 to max_running, where the last one ended.
uint64 begin_slot_search(int64 limit, int32 max_running, int32 *number);
// What it found, and where it ended. `all`: it has looked at every number, and no other is free.
void end_slot_search(int64 limit, uint64 ticket, const int32 *numbers, int count, bool all, int32 end);
// As many as one search may find.
constexpr int kFreeNumbers = 32;

// For who has the slot locked: no entry of a job that holds it has a lower jobs._slot_seq than this; 0: unknown.
int64 slot_bound(int64 slot);
// And who takes it writes this one, or a higher one.
int64 next_slot_seq(int64 slot, TimestampTz now);

// The current transaction takes a slot. `key` empty: it is one of the whole queue.
void slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq);

// For main/jobq.cpp: what the log of the transaction says of slots.
void raise_slot_bounds();  // when others see the transaction

// Whom to wake for slots that are free again: those who wait for jobs of a queue, or all.
struct SlotWaking {
    void (*queue)(const char *name);
    void (*all)();
};
// When who is woken can take them.
void publish_freed_slots(const SlotWaking &wake);
// After a rollback, to a savepoint too: that it may be told of too much does no harm.
void publish_slots_not_taken(const SlotWaking &wake);

// Takes a token of the limit; false: there is none before *due. `queue`: the queue_limit_id of the queue whose limit,
// or whose key's limit, it is.
bool spend_token(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);
void return_spent_token(int64 limit, const core::Rate &rate);
// How many there are, and when the next one comes.
int32 tokens_of(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);
// The same for who only reads: nothing is written down, whatever the rate.
int32 peek_tokens(int64 limit, int64 queue, const core::Rate &rate, TimestampTz now, TimestampTz *due);

// Forgets which slots of this session's database are free, and which jobs wait for one. No error is raised.
void forget_slots();

// Number of buckets that had to make room although they were not full, since the server started.
uint64 forgotten_buckets();

// For main/jobq.cpp: its part of the shared memory.
Size limits_size();
void make_limits(void *memory, bool fresh);

}  // namespace jobq
