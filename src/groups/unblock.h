// Blocked jobs become claimable when what they wait for has ended. If the transaction that ends a job can decide alone
// which job is unblocked, it unblocks that job itself (groups/successors.h). Everything else is done by one transaction
// per database at a time, the promoter. It waits for no other transaction, and no other transaction waits for it.
// Sessions that enqueue or complete jobs do not decide, because two concurrent decisions could contradict each other.
// (The promoter is not the duty "promote", which handles jobs whose run_at has come: see duties/duties.h.)
//
// The background worker handles what commits publish (groups/unblocked_list.h); jobq_tick() searches the table. Each
// kind of blocker has its own file.
#pragma once

#include "compat/pg.h"
#include "groups/unblocked_list.h"
#include "job/duty_outcome.h"
#include "log/transaction_log.h"

namespace jobq {

// The result of unblocking jobs of one kind of blocker.
struct Unblocking {
    TimestampTz now;
    bool careful;  // use subtransactions, because changing one of the jobs may fail
    DutyOutcome outcome;
    int64 moved;  // dependencies that are no longer active
};

// How unblock.cpp handles one kind of blocker. The functions run inside with_spi(), under fresh snapshots, while the
// transaction holds the promoter's lock.
struct UnblockingKind {
    // Promotes the jobs that these published entries have unblocked. The entries are sorted by key, and no key occurs
    // twice.
    void (*look)(const Unblocked *published, int count, Unblocking *done);
    // Searches about `limit` keys of the table, starting at *place, and moves *place forward. Returns false at the end
    // of the table.
    bool (*search)(SearchPlace *place, int limit, Unblocking *done);
    // Discards what this process has cached about this kind of blocker; nullptr if it caches nothing.
    void (*forget)();
};

// Schedules another check of this key soon, because another session has locked a job that should be promoted.
void look_again(const Unblocked &published);

// Unblocks a batch of jobs in the current transaction. Does nothing in REPEATABLE READ and above, where the snapshot
// may be older than the changes of another promoter.
DutyOutcome unblock_jobs(TimestampTz now, int batch);

// Starts a search of the table, for the repair. Does nothing if the previous search ended only a short time ago,
// compared with its duration.
void repair_unblocking(TimestampTz now);

// ---- for the worker

// Makes this process handle what commits publish, until the process exits.
void start_unblocking(const DatabaseState *db);
// Returns the entries and searches that this process has not finished to shared memory, for the next worker. Can be
// called while the process exits.
void stop_unblocking();
// Returns whether changing a job has failed, and no search has completed without such a failure since then.
bool unblocking_fails();
// Returns when to call unblock_jobs() next, or kNothingDue if the next call is only necessary when a commit publishes
// something.
TimestampTz next_unblocking(TimestampTz now);

// main/jobq.cpp calls these when the transaction or a savepoint is rolled back, because unblock_jobs() may have changed
// jobs in it.
void undo_unblocking();
void undo_unblocking_of_savepoint();

}  // namespace jobq
