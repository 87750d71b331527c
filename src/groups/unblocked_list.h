// The list through which commits notify the background worker of events that might have unblocked jobs, for example
// that the head of a group has ended without a successor (groups/successors.h), or that a job on which other jobs
// depend has ended. The entries are only hints; the table is authoritative. If an entry might be missing (after the
// server has started, after the list was full, or after a prepared transaction has ended), the list requests a search,
// and the worker searches the table.
//
// A session adds the entries of its transaction to the list of its database after its commit has become visible. So a
// session that takes an entry and then takes a snapshot sees the change that caused the entry. If jobq is not
// preloaded, these functions do nothing.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

// Publishes the entries in the transaction's log. main/jobq.cpp calls this function when other sessions can see the
// changes.
void publish_unblocked();

// Publishes these entries. Call it only when other sessions can see the changes. Never raises an error.
void unblock_now(const Unblocked *unblocked, int count, Blockers anything);
// Requests a search for all kinds of blockers. Call it if a visible change might have unblocked some job but no entry
// was published for the change. Never raises an error.
void unblock_anything();

// ---- Functions for the worker. `db` is the state of the worker's database.

// Returns whether the list contains entries that no process has taken yet. Needs no lock.
bool unblocked_waiting(const DatabaseState *db);
// Takes up to `room` entries from the list, in the order of the commits. The caller must search the table for the kinds
// of blockers that are set in *anything.
int take_unblocked(const DatabaseState *db, Unblocked *taken, int room, Blockers *anything);
// Empties the list. Call it if the database no longer has jobs, or if it is unknown which jobs the database has. The
// next process that takes entries must then search the table.
void reset_unblocked(const DatabaseState *db);
// Puts back entries that were taken but not handled. Can be called while the process exits.
void give_back_unblocked(const DatabaseState *db, Blockers anything, const Unblocked *entries, int count);

// The position at which a search through the table continues. A search needs a position because each transaction
// searches only a part of the table.
struct SearchPlace {
    int64 behind;  // the last key or job that was checked; PG_INT64_MIN: at the beginning
    uint64 began;  // a value that the code for this kind of blocker recorded at the beginning
};
// Saves the position of a search for the next worker of the database, when this worker must give its process slot to
// another database. If positions were not saved and there were more databases than workers, no search would ever reach
// its end. Can be called while the process exits.
void hand_on_search(const DatabaseState *db, Blocker blocker, const SearchPlace &place);
// Takes the position that hand_on_search() has saved. Returns false if there is none.
bool take_search(const DatabaseState *db, Blocker blocker, SearchPlace *place);
// Begins a pause: until the time `until`, processes start no searches except those that the list requests.
// searches_rest() returns whether a pause is in effect. It ignores a pause that would last for more than another hour.
void rest_from_searches(const DatabaseState *db, Blocker blocker, TimestampTz until);
bool searches_rest(const DatabaseState *db, Blocker blocker, TimestampTz now);

// ---- Function for the promoter, which must hold the promoter's lock

// Records that this process is now the promoter of the database. Returns whether it was also the previous promoter. If
// so, the facts that it has cached about jobs are still valid, except for groups in which other transactions have made
// a job the head.
bool begin_promoting();

// main/jobq.cpp calls these functions to set up the lists in shared memory.
Size unblocked_list_size();
void make_unblocked_list(void *memory, bool fresh);
SharedUsage unblocked_list_usage();

}  // namespace jobq
