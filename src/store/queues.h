// The store, administrators' side: queues and their settings. Inside with_spi().
#pragma once

#include "pg/pg.h"
#include "pg/spi.h"

namespace jobq {

// NULL parts: the default (create), or unchanged (alter).
struct QueueSettings {
    Datum values[7];  // in the order of the parameters of jobq_create_queue
    bool given[7];
};

// False when the queue has settings already.
bool create_queue(text *queue, const QueueSettings &settings);
// Creates the row when there is none.
void alter_queue(text *queue, const QueueSettings &settings);
// Creates the row when there is none. Returns whether the queue's state changed.
bool set_paused(text *queue, bool paused);
// Whether the queue has jobs that are not finished.
bool has_unfinished_jobs(text *queue);
// Deletes all that is known of a queue; false when nothing was.
bool forget_queue(text *queue);
// Deletes jobs of these statuses (text[]), never running ones. Returns how many.
int64 purge_queue(text *queue, Datum statuses);

}  // namespace jobq
