// Wakes of workers that did not sleep when they were woken (wait/wake_notes_policy.h), in shared memory: so a worker
// that has asked itself whether it shall stop, and goes to wait, is not left to sleep.
//
// No wake falls through: who wakes leaves a note first, then looks for sleepers (end_waits), and takes it back where it
// has found one; a sleeper enters itself first, then looks for a note. Without preload all of this does nothing.
#pragma once

#include "compat/pg.h"
#include "wait/wake_notes_policy.h"

namespace jobq {

// For workers of this database; `now` by the monotonic clock.
uint64 leave_wake_note(int64 worker, core::Micros now);
void take_back_wake_note(uint64 number);

// For the sleeper, after it has entered itself. True: it has been woken.
bool take_wake_note(int64 worker, core::Micros now);

// For main/jobq.cpp: its part of the shared memory.
Size wake_notes_size();
void make_wake_notes(void *memory, bool fresh);

}  // namespace jobq
