// When a commit has made jobs claimable, passes the names of their queues to the background worker, which sends NOTIFY
// for these queues. Each database has a board in shared memory for these names. The producer's own transaction must not
// send the notifications, because NOTIFY serializes commits and forbids PREPARE TRANSACTION.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

// Maximum number of queue names on a board. If more queues must be named, the notification says "any queue".
constexpr int kMaxNotices = 32;

// ---- Functions for a commit, called when other sessions can see the commit. They raise no error.

// Puts the queue's name on the board. Costs only a few comparisons if the name is already there. `queue` is zero
// padded.
void post_notice(const char *queue);
// Records on the board that every queue might have claimable jobs.
void post_notice_of_anything();

// ---- Functions for the background worker.

struct Notices {
    int count;
    bool anything;
    QueueName queues[kMaxNotices];
};

// Returns whether the board is not empty. Needs no lock.
bool notices_waiting(DatabaseState *db);
// Copies the notices from the board to `taken` and empties the board.
void take_notices(DatabaseState *db, Notices *taken);

// main/jobq.cpp calls these functions to set up the boards in shared memory and to report their usage.
Size notices_size();
void make_notices(void *memory, bool fresh);
SharedUsage notices_usage();

}  // namespace jobq
