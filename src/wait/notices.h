// The names of queues in which jobs became claimable, on their way to the background worker, which sends them as
// NOTIFY: a producer's own transaction must not, since NOTIFY serializes commits and forbids PREPARE TRANSACTION.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "shmem/database_state.h"

namespace jobq {

// More queues than this between two notifications are told as "any queue".
constexpr int kMaxNotices = 32;

// ---- for a commit, once everybody can see it: neither raises an error

// Costs a few comparisons while the queue's notice is waiting already. `queue` is zero padded.
void post_notice(const char *queue);
// Jobs of any queue may be claimable.
void post_notice_of_anything();

// ---- for the worker

struct Notices {
    int count;
    bool anything;
    QueueName queues[kMaxNotices];
};

// Whether there are any. Needs no lock.
bool notices_waiting(DatabaseState *db);
// Takes them down.
void take_notices(DatabaseState *db, Notices *taken);

// For main/jobq.cpp: its part of the shared memory.
Size notices_size();
void make_notices(void *memory, bool fresh);

}  // namespace jobq
