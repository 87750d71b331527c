// See wake_notes.h.
#include "compat/pg.h"

#include "shmem/memory.h"
#include "wait/wake_notes.h"

extern "C" {
#include "port/atomics.h"
}

namespace jobq {

namespace {

struct Notes {
    pg_atomic_uint32 count;  // number of notes, which a sleeper reads before it acquires the lock
    core::WakeNotes notes;
};

Notes *board = nullptr;

LWLock *lock() { return shared_lock(Part::WakeNotes); }

// Calls change(notes) under the lock.
template <typename Change>
auto change_notes(Change change) {
    LWLockAcquire(lock(), LW_EXCLUSIVE);
    const auto result = change(&board->notes);
    pg_atomic_write_u32(&board->count, board->notes.used);
    LWLockRelease(lock());
    return result;
}

}  // namespace

Size wake_notes_size() { return sizeof(Notes); }

void make_wake_notes(void *memory, bool fresh) {
    board = static_cast<Notes *>(memory);
    if (!fresh) return;
    pg_atomic_init_u32(&board->count, 0);
}

SharedUsage wake_notes_usage() {
    LWLockAcquire(lock(), LW_SHARED);
    const SharedUsage usage = {board->notes.used, core::kWakeNotes, static_cast<int64>(board->notes.evicted)};
    LWLockRelease(lock());
    return usage;
}

uint64 leave_wake_note(int64 worker, core::Micros now) {
    if (!shared_memory_ready()) return 0;
    return change_notes([&](core::WakeNotes *notes) { return core::leave_note(notes, MyDatabaseId, worker, now); });
}

void take_back_wake_note(uint64 number) {
    if (!shared_memory_ready()) return;
    change_notes([&](core::WakeNotes *notes) {
        core::take_back_note(notes, number);
        return true;
    });
}

bool take_wake_note(int64 worker, core::Micros now) {
    if (!shared_memory_ready()) return false;
    // The entry of the sleeper in the list of waiters must be visible to other sessions before the sleeper reads the
    // number of notes.
    pg_memory_barrier();
    if (pg_atomic_read_u32(&board->count) == 0) return false;
    return change_notes([&](core::WakeNotes *notes) { return core::take_note(notes, MyDatabaseId, worker, now); });
}

}  // namespace jobq
