// Notes, in shared memory, of wakes of workers that did not sleep at that time (waiters/wake_notes_policy.h). They end
// the next wait of a worker that has just checked whether it should stop and is about to wait.
//
// No wake is lost: the waking session first leaves a note, then looks for sleepers (end_waits), and takes the note back
// if it has found one. A sleeper enters itself first, then looks for a note. Without preload all of this does nothing.
#pragma once

#include "compat/pg.h"
#include "shmem/memory.h"
#include "waiters/wake_notes_policy.h"

namespace jobq {

// Leave a note for a worker of this database, or take it back. `now` is the time of the monotonic clock.
uint64 leave_wake_note(int64 worker, core::Micros now);
void take_back_wake_note(uint64 number);

// Takes the worker's note, after the sleeper has entered itself. Returns true if the worker has been woken.
bool take_wake_note(int64 worker, core::Micros now);

// Sets up the notes in shared memory, for main/jobq.cpp.
Size wake_notes_size();
void make_wake_notes(void *memory, bool fresh);
SharedUsage wake_notes_usage();

}  // namespace jobq
