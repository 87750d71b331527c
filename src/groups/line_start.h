// Where the lines of groups begin, as far as the server knows: no job with a lower id stands in one. The entries of
// former heads stay in the index until a vacuum, in front of the next job, and while an old transaction is open no
// vacuum removes them: every look at a long-lived group would pass all of them.
//
// Jobs get into line with lower ids, too: one whose transaction commits late, one that is retried, one that somebody
// has put there. So whoever puts a job into line says so when others can see it, and the line begins there again; but
// for the moment between, no job stands in front of where it is said to begin. A look announces itself before it takes
// its snapshot, and stays announced until its transaction has committed and noted what it has found: the ids of who
// tells meanwhile, whether the snapshot sees them or not, limit that. As all this rests on being told, it is of an
// epoch of the triggers (row/jobs_table.h). Groups share places in shared memory, each of which knows one: that of
// whose line most entries were passed lately, so that many groups of a few jobs leave alone what a few groups of many
// need. Without preload nothing is known.
#pragma once

#include "compat/pg.h"
#include "log/transaction_log.h"

namespace jobq {

// ---- a look at the line of one group; what it finds counts when the transaction has committed

// Before the snapshot. Returns the number of the look, for the others.
int begin_line_look(int64 group);
// Under the snapshot: the lowest id that may stand in line; PG_INT64_MIN: nobody knows.
int64 line_start(int look);
// The snapshot shows nobody with a lower id in line, from line_start() on, where so many entries were passed; `whole`:
// from the very beginning, which puts right what is known.
void found_line_start(int look, int64 first, int32 passed, bool whole);

// For main/jobq.cpp: the transaction has committed; it has not, or is prepared; a savepoint is released, or rolled
// back, whose changes the snapshot of a look has seen.
void keep_line_starts();
void drop_line_starts();
void hand_line_looks_to_parent();
void void_line_looks_of_savepoint();

// ---- what gets into line

// What the log of the transaction says of it: for main/jobq.cpp, when others see it, and before this transaction looks
// itself.
void publish_lines();
// Everybody can see already what these tell of. Raises no error.
void tell_lines(const Unblocked *unblocked, int count, Blockers anything);
// Nobody knows who has got into which line of a database. Raises no error.
void forget_lines(Oid database);

// For main/jobq.cpp: its part of the shared memory.
Size line_starts_size();
void make_line_starts(void *memory, bool fresh);

}  // namespace jobq
