// Keeps notes in shared memory about calls to jobq_wake() for workers that were not waiting
// (waiters/wake_notes_policy.h). A note ends the next wait of a worker that has just checked whether it should stop and
// is about to wait.
//
// No call to jobq_wake() is lost: the calling session first adds a note, then searches for waiting sessions of the
// worker (end_waits), and removes the note if it has found such a session. A waiting session first enters itself into
// the list of waiters, then checks for a note. If the library is not preloaded, all of these functions do nothing.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"
#include "waiters/wake_notes_policy.h"

namespace jobq {

// leave_wake_note() adds a note for a worker of this database and returns the number of the note; take_back_wake_note()
// removes the note with this number. `now` is the time of the monotonic clock.
uint64 leave_wake_note(int64 worker, core::Micros now);
void take_back_wake_note(uint64 number);

// Removes the worker's note. Must be called after the session has entered itself into the list of waiters. Returns true
// if there was a note. In this case, the wait must end.
bool take_wake_note(int64 worker, core::Micros now);

// main/jobq.cpp calls these functions to set up the notes in shared memory and to report their usage.
Size wake_notes_size();
void make_wake_notes(void *memory, bool fresh);
SharedUsage wake_notes_usage();

}  // namespace jobq
