// What may have unblocked jobs, on its way from commits to the background worker: a group whose head has ended without
// a successor (groups/successors.h), a job that others depend on and that has ended. The entries are only hints,
// because the table is the truth. Whenever an entry may be missing (after a start, without room, after the end of a
// prepared transaction), the list says so, and the worker searches the table instead.
//
// A commit adds its entries to the list of its database after it has become visible. So a session that takes an entry
// and then takes a snapshot sees what the entry announces. Without preload, all of this does nothing.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

// For main/jobq.cpp: publishes the entries in the log of the transaction, when other sessions can see its changes.
void publish_unblocked();

// Publishes these entries, whose changes other sessions can see already. Raises no error.
void unblock_now(const Unblocked *unblocked, int count, Blockers anything);
// Asks for a search of all kinds, because a visible change for which no entry was published may have unblocked
// anything. Raises no error.
void unblock_anything();

// ---- for the worker. `db` is the state of its database.

// Returns whether commits have published anything that no process has taken yet. Needs no lock.
bool unblocked_waiting(const DatabaseState *db);
// Takes up to `room` entries, in the order of the commits. The caller must search the table for the kinds that are set
// in *anything.
int take_unblocked(const DatabaseState *db, Unblocked *taken, int room, Blockers *anything);
// Empties the list, because the database has no jobs any more, or unknown ones. The next process that takes entries
// searches.
void reset_unblocked(const DatabaseState *db);
// Puts back entries that were taken but not handled. Safe while the process exits.
void give_back_unblocked(const DatabaseState *db, Blockers anything, const Unblocked *entries, int count);

// The place where a search through the table continues. Each transaction searches a piece.
struct SearchPlace {
    int64 behind;  // the last key or job that was looked at; PG_INT64_MIN: at the beginning
    uint64 began;  // a value that the kind of blocker noted at the beginning
};
// Leaves a search to the next worker, when this one has to make room. Otherwise, if there are more databases than
// workers, no search would ever reach its end. Safe while the process exits.
void hand_on_search(const DatabaseState *db, Blocker blocker, const SearchPlace &place);
// Returns false if there is no search to continue.
bool take_search(const DatabaseState *db, Blocker blocker, SearchPlace *place);
// Until this time, at most an hour, no process starts a search that was not asked for.
void rest_from_searches(const DatabaseState *db, Blocker blocker, TimestampTz until);
bool searches_rest(const DatabaseState *db, Blocker blocker, TimestampTz now);

// ---- for the promoter, while it holds its lock

// Records that this process promotes jobs of the database from now on. Returns whether it was also the last one that
// did. Then what it remembers of the jobs is still valid, except for heads that commits have made themselves.
bool begin_promoting();

// For main/jobq.cpp: its part of the shared memory.
Size unblocked_list_size();
void make_unblocked_list(void *memory, bool fresh);
SharedUsage unblocked_list_usage();

}  // namespace jobq
