// Detects unknown queue names, which are probably mistyped. Functions use it that would otherwise silently do nothing
// or create a queue with such a name.
#pragma once

#include "compat/pg.h"
#include "queues/scope.h"

#include <string_view>

namespace jobq {

// Returns whether the queue is known. Does not write.
bool queue_is_known(std::string_view name);

// Raises 54000 if the queue is unknown and the database has as many queues as jobq.max_queues allows. Never raises it
// in a background worker, because a background worker creates a queue only for jobs that exist already. Call it inside
// with_spi().
void check_room_for_queue(std::string_view name);

// Call the following two functions inside with_spi(), before the queue is created. A queue is known if it has or had
// jobs, has settings or a limit, or is the dead letter queue of another queue. jobq_drop_queue() makes it unknown
// again.

// Raises a NOTICE if the queue is unknown. The hint names the nearest known queue in scope, if there is one.
void warn_of_unknown_queue(std::string_view name, const QueueScope *scope);
// Raises the NOTICE only if there is a known queue with a similar name. Use it for calls that may legitimately be the
// first to name a queue.
void warn_of_mistyped_queue(std::string_view name, const QueueScope *scope);

}  // namespace jobq
