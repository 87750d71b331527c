// Creates, changes, and deletes queues and their settings. Call these functions inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/queue_settings.h"

namespace jobq {

// The settings that the caller passes, in the order of core::SettingNumber. All other settings get their defaults when
// a queue is created and keep their values when a queue is altered.
struct GivenSettings {
    Datum values[core::kQueueSettings];
    bool given[core::kQueueSettings];

    bool has(core::SettingNumber number) const { return given[static_cast<int>(number)]; }
    Datum get(core::SettingNumber number) const { return values[static_cast<int>(number)]; }
};

// Creates the queue's row of settings. Returns false if the queue already has settings.
bool create_queue(text *queue, const GivenSettings &settings);
// Changes the queue's settings. Creates their row if there is none.
void alter_queue(text *queue, const GivenSettings &settings);
// Looks for a dead letter queue that is set to keep no failed jobs: either the dead letter queue of the given queue, or
// the given queue if other queues use it as their dead letter queue. Returns one row with the name of such a queue, or
// no row if there is none. Reads the latest committed settings, even in REPEATABLE READ and SERIALIZABLE.
Rows unkept_dead_letters(text *queue);
// Pauses or resumes the queue. Pausing creates the row of settings if there is none. Returns whether the queue's state
// changed.
bool set_paused(text *queue, bool paused);
// Locks all jobs of the queue. Returns rows (id, whether the job has finished, whether it is a dead letter), ordered by
// id.
Rows lock_queue(text *queue);
// Deletes the jobs with these ids, and the queue's settings and lanes. Returns false if there was nothing to delete.
bool forget_queue(text *queue, Datum ids);
// Deletes at most `max_jobs` jobs in these statuses (text[]), which must not include "processing". Returns how many
// jobs were deleted.
int64 purge_queue(text *queue, Datum statuses, int64 max_jobs);

}  // namespace jobq
