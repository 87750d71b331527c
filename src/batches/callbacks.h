// Reads the object that describes a callback, a job that is enqueued when a batch has ended.
#pragma once

#include "compat/pg.h"
#include "enqueue/enqueue.h"
#include "queues/scope.h"

namespace jobq {

enum class Callback { Complete, Success, Failure };
constexpr int kCallbacks = 3;
constexpr const char *kCallbackArguments[kCallbacks] = {"on_complete", "on_success", "on_failure"};

// Returns the job that the object describes. Adds the keys "batch" (the id) and "batch_event" to its metadata. Raises
// the errors of parse_spec() and check_spec(); the error context names the argument.
JobSpec job_of_callback(Callback which, const Jsonb *object, int64 batch, const QueueScope *scope, TimestampTz now,
                        bool is_given);

// Returns whether a batch that has not finished has a callback in this queue. Call it inside with_spi(), with the
// owner's privileges.
bool any_callback_in(text *queue);

}  // namespace jobq
