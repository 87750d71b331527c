// Queues and their settings. Inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/queue_settings.h"

namespace jobq {

// The settings that a call sets, in the order of the table of settings. The others get their defaults when a queue is
// created, and stay as they are when it is altered.
struct GivenSettings {
    Datum values[core::kQueueSettings];
    bool given[core::kQueueSettings];

    bool has(core::SettingNumber number) const { return given[static_cast<int>(number)]; }
    Datum get(core::SettingNumber number) const { return values[static_cast<int>(number)]; }
};

// Returns false if the queue already has settings.
bool create_queue(text *queue, const GivenSettings &settings);
// Creates the row if there is none.
void alter_queue(text *queue, const GivenSettings &settings);
// Returns a row with the name of a dead letter queue that would keep no failed jobs, if there is one: the queue that
// this queue uses, or this queue itself. Reads what is committed now, also in REPEATABLE READ and above.
Rows unkept_dead_letters(text *queue);
// Creates the row if there is none. Returns whether the queue's state changed.
bool set_paused(text *queue, bool paused);
// Locks all jobs of the queue, and returns rows (id, finished, is a dead letter) in the order of the ids.
Rows lock_queue(text *queue);
// Deletes these jobs and the queue's settings and lanes. Returns false if there was nothing to delete.
bool forget_queue(text *queue, Datum ids);
// Deletes at most `max_jobs` jobs in these statuses (text[]), but no running jobs. Returns how many were deleted.
int64 purge_queue(text *queue, Datum statuses, int64 max_jobs);

}  // namespace jobq
