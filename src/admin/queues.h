// Queues and their settings. Inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "core/queue_settings.h"

namespace jobq {

// What a call gives; the rest is the default (create) or unchanged (alter). In the order of the table of settings.
struct GivenSettings {
    Datum values[core::kQueueSettings];
    bool given[core::kQueueSettings];

    bool has(core::SettingNumber number) const { return given[static_cast<int>(number)]; }
    Datum get(core::SettingNumber number) const { return values[static_cast<int>(number)]; }
};

// False when the queue has settings already.
bool create_queue(text *queue, const GivenSettings &settings);
// Creates the row when there is none.
void alter_queue(text *queue, const GivenSettings &settings);
// A row with the name of a dead letter queue that would keep nothing: this queue's, or this queue itself. By what is
// committed now, in REPEATABLE READ and above as well.
Rows unkept_dead_letters(text *queue);
// Creates the row when there is none. Returns whether the queue's state changed.
bool set_paused(text *queue, bool paused);
// Locks all jobs of the queue and returns the rows (id, finished, is a dead letter), in the order of the ids.
Rows lock_queue(text *queue);
// Deletes these jobs, the queue's settings and its lanes; false when there was nothing.
bool forget_queue(text *queue, Datum ids);
// Deletes at most `max_jobs` jobs of these statuses (text[]), never running ones. Returns how many.
int64 purge_queue(text *queue, Datum statuses, int64 max_jobs);

}  // namespace jobq
