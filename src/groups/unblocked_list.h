// What may have set blocked jobs free, on its way from commits to the background worker: a group whose active job has
// ended without a successor (groups/successors.h), a job that others depend on. Hints only: the table is the truth, and
// whenever something may be missing from the list (a start, no room, a prepared transaction ended) it says so, and the
// worker searches the table instead.
//
// A commit adds to the list of its database after everybody can see it; whoever takes an entry and looks under a
// snapshot of later sees what it tells of. Without preload all of this does nothing.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"
#include "shmem/database_state.h"

namespace jobq {

// For main/jobq.cpp: what the log of the transaction says of it, when others see it.
void publish_unblocked();

// Everybody can see already what these tell of. Raises no error.
void unblock_now(const Unblocked *unblocked, int count, Blockers anything);
// Everybody can see already what may have unblocked anything, and nobody has told of it. Raises no error.
void unblock_anything();

// ---- for the worker. `db` is the state of its database.

// Whether a commit has told of anything that nobody has taken yet. Needs no lock.
bool unblocked_waiting(const DatabaseState *db);
// Takes up to `room` entries, in the order of the commits. What is set in *anything must be searched for in the table.
int take_unblocked(const DatabaseState *db, Unblocked *taken, int room, Blockers *anything);
// The database has no jobs any more, or unknown ones: whoever takes next searches.
void reset_unblocked(const DatabaseState *db);
// What was taken and not dealt with. Safe while the process exits.
void give_back_unblocked(const DatabaseState *db, Blockers anything, const Unblocked *entries, int count);

// Where a search through the table goes on, a piece a transaction.
struct SearchPlace {
    int64 behind;  // the last key or job that has been looked at; PG_INT64_MIN: at the beginning
    uint64 began;  // what the kind of blocker noted then
};
// A worker that has to make room leaves its search to the next one: where there are more databases than workers none
// would ever come to its end. Safe while the process exits.
void hand_on_search(const DatabaseState *db, Blocker blocker, const SearchPlace &place);
// False: there is none to go on with.
bool take_search(const DatabaseState *db, Blocker blocker, SearchPlace *place);
// Searches that nobody has asked for rest until then, whoever makes them; at most an hour.
void rest_from_searches(const DatabaseState *db, Blocker blocker, TimestampTz until);
bool searches_rest(const DatabaseState *db, Blocker blocker, TimestampTz now);

// ---- for whoever promotes, while holding the lock that only one may have

// Notes that this process promotes jobs of the database from here on. Returns whether it was the last one that did:
// what it remembers of them still holds, as far as no commit has made a head by itself.
bool begin_promoting();

// For main/jobq.cpp: its part of the shared memory.
Size unblocked_list_size();
void make_unblocked_list(void *memory, bool fresh);

}  // namespace jobq
