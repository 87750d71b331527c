// Passes the names of queues in which jobs have become claimable from commits to the background worker, which sends
// NOTIFY for them. Each database has a board in shared memory for these names. The producer's own transaction must not
// send them, because NOTIFY serializes commits and forbids PREPARE TRANSACTION.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

// Maximum number of queues that are named between two notifications; with more, the notification says "any queue".
constexpr int kMaxNotices = 32;

// ---- Functions for a commit, called once other sessions can see it. They raise no error.

// Puts the queue's name on the board. Costs only a few comparisons if the name is already there. `queue` is zero
// padded.
void post_notice(const char *queue);
// Records on the board that jobs of any queue may be claimable.
void post_notice_of_anything();

// ---- Functions for the worker.

struct Notices {
    int count;
    bool anything;
    QueueName queues[kMaxNotices];
};

// Returns whether the board is not empty. Needs no lock.
bool notices_waiting(DatabaseState *db);
// Copies the notices from the board to `taken` and empties the board.
void take_notices(DatabaseState *db, Notices *taken);

// Sets up the boards in shared memory, for main/jobq.cpp.
Size notices_size();
void make_notices(void *memory, bool fresh);
SharedUsage notices_usage();

}  // namespace jobq
