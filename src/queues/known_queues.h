// Names of queues that nobody knows: mistyped, most likely. For functions that would do nothing with them, or make a
// queue of that name, without a word.
#pragma once

#include "compat/pg.h"
#include "queues/scope.h"

#include <string_view>

namespace jobq {

// Whether anything is known of it; only reads.
bool queue_is_known(std::string_view name);

// Raises 54000 if the queue is not known and the database has as many queues as jobq.max_queues allows. Inside
// with_spi(). Background workers may always make one, because their jobs are there already.
void check_room_for_queue(std::string_view name);

// Both inside with_spi(), and before the call makes a queue of that name. A queue is known that has, or had, jobs, or
// has settings or a limit, or is to take another one's dead letters; drop_queue forgets it.

// Raises a NOTICE, with the nearest name that is known and in scope, if there is one, unless the queue is known itself.
void warn_of_unknown_queue(std::string_view name, const QueueScope *scope);
// The same only if there is such a name: for calls that may well be the first to name a queue.
void warn_of_mistyped_queue(std::string_view name, const QueueScope *scope);

}  // namespace jobq
