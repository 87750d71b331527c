// Blocked jobs become claimable when what they wait for has ended. If the transaction that ends a job can decide alone
// which job is unblocked, it unblocks that job itself (groups/successors.h). Everything else is done by one transaction
// per database at a time, the promoter. It waits for no other transaction, and no other transaction waits for it.
// Sessions that enqueue or complete jobs do not decide, because two concurrent decisions could contradict each other.
// (The promoter is not the duty "promote", which handles jobs whose run_at time has passed: see duties/promote.cpp.)
//
// The background worker handles the entries that commits publish (groups/unblocked_list.h); jobq_tick() searches the
// table. Each kind of blocker has its own file.
#pragma once

#include "compat/pg.h"
#include "groups/unblocked_list.h"
#include "job/duty_outcome.h"
#include "log/transaction_log.h"

namespace jobq {

// The parameters and the results of one call to unblock_jobs().
struct Unblocking {
    TimestampTz now;
    bool careful;  // use subtransactions, because changing one of the jobs might fail
    DutyOutcome outcome;
    int64 moved;  // dependencies that are no longer active
};

// How unblock.cpp handles one kind of blocker. The functions run inside with_spi(), under fresh snapshots, while the
// transaction holds the promoter's lock.
struct UnblockingKind {
    // Promotes the jobs that might be unblocked according to the published entries. The entries are sorted by key, and
    // each key occurs only once.
    void (*look)(const Unblocked *published, int count, Unblocking *done);
    // Searches about `limit` keys of the table, starting at *place, and moves *place forward. Returns false at the end
    // of the table.
    bool (*search)(SearchPlace *place, int limit, Unblocking *done);
    // Discards what this process has cached about this kind of blocker. The pointer is nullptr if nothing is cached.
    void (*forget)();
};

// Makes the promoter check this key again soon. Call it if another session has locked a job that should be promoted.
void look_again(const Unblocked &published);

// Unblocks a batch of jobs in the current transaction. Does nothing in REPEATABLE READ and above, where the snapshot
// might be older than the changes made by another promoter.
DutyOutcome unblock_jobs(TimestampTz now, int batch);

// Starts a search of the table, as part of the repair (duties/repair.cpp). Does nothing if the time since the end of
// the previous search is short compared with the duration of that search.
void repair_unblocking(TimestampTz now);

// ---- Functions for the worker

// Makes this process handle the entries that commits publish, until the process exits.
void start_unblocking(const DatabaseState *db);
// Moves the unfinished entries and searches of this process back to shared memory, for the next worker. Can be called
// while the process exits.
void stop_unblocking();
// Returns whether a job could not be changed and no search has succeeded since then.
bool unblocking_fails();
// Returns the time at which to call unblock_jobs() again, or kNothingDue if a call is necessary only after a commit has
// published something.
TimestampTz next_unblocking(TimestampTz now);

// main/jobq.cpp calls these functions when the transaction or a savepoint is rolled back, because unblock_jobs() might
// have changed jobs in the transaction or savepoint.
void undo_unblocking();
void undo_unblocking_of_savepoint();

}  // namespace jobq
