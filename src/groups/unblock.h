// Blocked jobs become claimable when what they wait for has ended. If a single transaction can know that alone, it
// unblocks the job itself: groups/successors.h. Everything else is done by one transaction per database at a time, the
// promoter. It waits for no other transaction, and no other transaction waits for it. Producers and completions do not
// decide, because decisions that two of them make at the same time could contradict each other. (The duty "promote",
// which handles jobs whose time has come, is something else: duties/duties.h.)
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
    bool careful;  // use subtransactions, because one of the jobs may be impossible to change
    DutyOutcome outcome;
    int64 moved;  // dependencies that are no longer active
};

// One kind of blocker, for unblock.cpp. The functions run inside with_spi(), under fresh snapshots, while the
// transaction holds the promoter's lock.
struct UnblockingKind {
    // Promotes the jobs that these published entries have unblocked. The entries are sorted by key, and no key occurs
    // twice.
    void (*look)(const Unblocked *published, int count, Unblocking *done);
    // Searches the table, about `limit` keys from *place on, and moves *place forward. Returns false at the end of the
    // table.
    bool (*search)(SearchPlace *place, int limit, Unblocking *done);
    // Discards what this process remembers of the kind. nullptr if it remembers nothing.
    void (*forget)();
};

// Looks at this key again soon, because another session has locked a job that should be promoted.
void look_again(const Unblocked &published);

// Unblocks one transaction's worth of jobs. Does nothing in REPEATABLE READ and above, where the snapshot may be older
// than the changes of another promoter.
DutyOutcome unblock_jobs(TimestampTz now, int batch);

// For the repair: searches the table again, unless the last search was too recent for what it cost.
void repair_unblocking(TimestampTz now);

// ---- for the worker

// From now on, this process handles what commits publish, until it exits.
void start_unblocking(const DatabaseState *db);
// Hands on what this process has not handled yet. Safe while the process exits.
void stop_unblocking();
// Returns whether a job could not be changed, and no later search has completed without such a failure.
bool unblocking_fails();
// Returns when to call unblock_jobs() next; kNothingDue: when a commit publishes something.
TimestampTz next_unblocking(TimestampTz now);

// For main/jobq.cpp, when the transaction or a savepoint is rolled back. unblock_jobs() may have changed jobs in it.
void undo_unblocking();
void undo_unblocking_of_savepoint();

}  // namespace jobq
