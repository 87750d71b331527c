// Pauses, resumes, purges, and deletes queues. Call these functions inside with_spi().
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"

namespace jobq {

// Pauses or resumes the queue. Pausing creates the row of settings if there is none. Returns whether the queue's state
// changed.
bool set_paused(text *queue, bool paused);
// Locks all jobs of the queue. Returns rows (id, whether the job has finished, whether it is a dead letter), ordered by
// id.
Rows lock_queue(text *queue);
// Deletes the jobs with these ids, and the queue's settings, kinds, and lanes. Returns false if there was nothing to
// delete.
bool forget_queue(text *queue, Datum ids);
// Deletes at most `max_jobs` jobs in these statuses (text[]), which must not include "processing". Returns how many
// jobs were deleted.
int64 purge_queue(text *queue, Datum statuses, int64 max_jobs);

}  // namespace jobq
