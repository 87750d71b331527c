// Blocked jobs become claimable when what they wait for has ended. Where one transaction alone can know that, it does
// it itself: groups/successors.h. All else is done by one transaction of a database at a time, that of the promoter; it
// waits for nobody, and nobody waits for it. Producers and completions do not decide about it: what two of them decided
// at the same time could contradict each other. (The duty "promote", of jobs whose time has come, is another matter:
// duties/duties.h.)
//
// The background worker looks at what commits tell of (groups/unblocked_list.h); whoever calls jobq_tick() searches the
// table. Each kind of blocker has its own file.
#pragma once

#include "compat/pg.h"
#include "groups/unblocked_list.h"
#include "job/duty_outcome.h"
#include "log/transaction_log.h"

namespace jobq {

// What a look at one kind of blocker has come to.
struct Unblocking {
    TimestampTz now;
    bool careful;  // a job that cannot be changed may be among them: each in a subtransaction of its own
    DutyOutcome outcome;
    int64 moved;  // dependencies that are not active any more
};

// One kind of blocker, for unblock.cpp. All of it runs inside with_spi(), under fresh snapshots, with the lock on
// unblocking held.
struct UnblockingKind {
    // Promotes what those that are told of have set free. They are sorted by key, no key comes twice.
    void (*look)(const Unblocked *told, int count, Unblocking *done);
    // Looks through the table, about `limit` keys from *place on, and moves it on. False: that was the end.
    bool (*search)(SearchPlace *place, int limit, Unblocking *done);
    // What this process remembers of the kind is void; nullptr: it remembers nothing.
    void (*forget)();
};

// Look at this key again soon: somebody holds a job that is to be promoted.
void look_again(const Unblocked &told);

// One transaction's worth of it. Nothing in REPEATABLE READ and above, where the snapshot may be older than what
// another promoter did.
DutyOutcome unblock_jobs(TimestampTz now, int batch);

// The repair: search the table again, when the last search is long enough ago for its cost.
void repair_unblocking(TimestampTz now);

// ---- for the worker

// From here on this process deals with what commits tell of; until it ends.
void start_unblocking(const DatabaseState *db);
// Hands on what it has not dealt with. Safe while the process exits.
void stop_unblocking();
// Whether a job could not be changed, and no search since has gone through without meeting such a one.
bool unblocking_fails();
// When unblock_jobs() is to be called; kNothingDue: when a commit tells of something.
TimestampTz next_unblocking(TimestampTz now);

// For main/jobq.cpp: the transaction, in which unblock_jobs() may have changed jobs, is rolled back.
void undo_unblocking();
void undo_unblocking_of_savepoint();

}  // namespace jobq
