// Queues and their settings. Inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

constexpr int kQueueSettings = 14;

// NULL parts: the default (create), or unchanged (alter).
constexpr int kKeepFailed = 6, kDeadLetterQueue = 9;
struct QueueSettings {
    Datum values[kQueueSettings];  // in the order of the parameters of jobq_create_queue
    bool given[kQueueSettings];
};

// False when the queue has settings already.
bool create_queue(text *queue, const QueueSettings &settings);
// Creates the row when there is none.
void alter_queue(text *queue, const QueueSettings &settings);
// A row with the name of a dead letter queue that would keep nothing: this queue's, or this queue itself.
Rows unkept_dead_letters(text *queue);
// Creates the row when there is none. Returns whether the queue's state changed.
bool set_paused(text *queue, bool paused);
// Locks all jobs of the queue and returns the rows (id, finished, is a dead letter), in the order of the ids.
Rows lock_queue(text *queue);
// Deletes these jobs, the queue's settings and its lanes; false when there was nothing.
bool forget_queue(text *queue, Datum ids);
// Deletes jobs of these statuses (text[]), never running ones. Returns how many.
int64 purge_queue(text *queue, Datum statuses);

}  // namespace jobq
