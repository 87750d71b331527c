// The list through which commits tell the background worker what may have unblocked jobs, for example a group whose
// head has ended without a successor (groups/successors.h), or a job that has ended and that other jobs depend on. The
// entries are only hints, because the table has the facts. If an entry may be missing (after a start of the server,
// when the list was full, or after the end of a prepared transaction), the list asks for a search, and the worker
// searches the table.
//
// A session adds the entries of its transaction to the list of its database after its commit has become visible. So a
// session that takes an entry and then takes a snapshot sees the change behind the entry. Without preload, these
// functions do nothing.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

// Publishes the entries in the log of the transaction. main/jobq.cpp calls it when other sessions can see the changes.
void publish_unblocked();

// Publishes these entries. Other sessions must already see the changes. Never raises an error.
void unblock_now(const Unblocked *unblocked, int count, Blockers anything);
// Asks for a search for all kinds of blockers, because a visible change for which no entry was published may have
// unblocked any job. Never raises an error.
void unblock_anything();

// ---- for the worker. `db` is the state of its database.

// Returns whether the list contains entries that no process has taken yet. Needs no lock.
bool unblocked_waiting(const DatabaseState *db);
// Takes up to `room` entries from the list, in the order of the commits. The caller must search the table for the kinds
// of blockers that are set in *anything.
int take_unblocked(const DatabaseState *db, Unblocked *taken, int room, Blockers *anything);
// Empties the list, because the database has no jobs any more, or because its jobs are unknown. Asks the next process
// that takes entries to search the table.
void reset_unblocked(const DatabaseState *db);
// Puts back entries that were taken but not handled. Can be called while the process exits.
void give_back_unblocked(const DatabaseState *db, Blockers anything, const Unblocked *entries, int count);

// The position at which a search through the table continues, because each transaction searches only a part of the
// table.
struct SearchPlace {
    int64 behind;  // the last key or job that was checked; PG_INT64_MIN: at the beginning
    uint64 began;  // a value that the kind of blocker noted at the beginning
};
// Saves the position of a search for the next worker of the database, when this worker must give its process slot to
// another database. Otherwise, if there are more databases than workers, no search would ever reach its end. Can be
// called while the process exits.
void hand_on_search(const DatabaseState *db, Blocker blocker, const SearchPlace &place);
// Takes the position that hand_on_search() has saved. Returns false if there is none.
bool take_search(const DatabaseState *db, Blocker blocker, SearchPlace *place);
// Until `until`, but for at most an hour, keeps processes from starting searches that the list does not ask for.
void rest_from_searches(const DatabaseState *db, Blocker blocker, TimestampTz until);
bool searches_rest(const DatabaseState *db, Blocker blocker, TimestampTz now);

// ---- for the promoter, while it holds its lock

// Records that this process is now the promoter of the database. Returns whether it was also the previous promoter. If
// so, what it has cached about the jobs is still valid, except about groups whose heads other transactions have made.
bool begin_promoting();

// Set up the lists in shared memory, for main/jobq.cpp.
Size unblocked_list_size();
void make_unblocked_list(void *memory, bool fresh);
SharedUsage unblocked_list_usage();

}  // namespace jobq
