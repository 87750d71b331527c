// Detects unknown queue names, which are probably typos. Functions use these checks if they would otherwise silently do
// nothing or would create a queue with the mistyped name.
#pragma once

#include "compat/pg.h"
#include "queues/scope.h"

#include <string_view>

namespace jobq {

// Returns whether the queue is known. Only reads, so it also works on a standby.
bool queue_is_known(std::string_view name);

// Raises 54000 if the queue is unknown and the database already has as many queues as jobq.max_queues allows. Never
// raises an error in a background worker, because a background worker creates a queue only for existing jobs. Call it
// inside with_spi().
void check_room_for_queue(std::string_view name);

// Call the following two functions inside with_spi(), before the queue is created. A queue is known if it has or had
// jobs, has settings, kinds with settings, or a limit, or is the dead letter queue of another queue. jobq_drop_queue()
// makes it unknown again.

// Raises a NOTICE if the queue is unknown. The hint names the known queue in scope with the most similar name, if any
// name is similar enough.
void warn_of_unknown_queue(std::string_view name, const QueueScope *scope);
// Raises the same NOTICE as warn_of_unknown_queue(), but only if a known queue has a similar name. Use this function
// for calls that can legitimately be the first to name a queue.
void warn_of_mistyped_queue(std::string_view name, const QueueScope *scope);

}  // namespace jobq
