// Notes about calls to jobq_wake() for workers that were not waiting. A note ends the next wait of its worker, unless
// the note has expired. These functions do not read the clock; the time is an argument. wait/wake_notes.h keeps the
// notes in shared memory.
#pragma once

#include "core/job.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// Maximum number of notes in the server. If there are more, the oldest note of the database with the most notes is
// evicted, so that no database causes the eviction of other databases' notes.
constexpr int kWakeNotes = 1024;
constexpr Micros kWakeNoteKept = kMinute;

// Returns the hash by which shared memory identifies a worker's name. Never returns 0, which stands for a worker
// without a name. If two names have the same hash, a wait can end too early.
std::int64_t worker_key(std::string_view worker_id) noexcept;

struct WakeNote {
    std::int64_t worker;  // 0: no worker
    std::uint64_t number;
    Micros left_at;
    std::uint32_t database;
};

struct WakeNotes {
    std::uint64_t last_number;
    std::uint64_t evicted;  // number of notes evicted so far
    int used;               // entries from here on are empty
    WakeNote notes[kWakeNotes];
};
static_assert(std::is_trivially_copyable_v<WakeNotes>, "lives in shared memory");

// Adds a note for the worker, which replaces any older note for the same worker. Returns the number of the new note.
std::uint64_t leave_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept;

// Removes the worker's note. Returns false if there is no note or the note has expired. Also removes all expired notes.
bool take_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept;

// Removes the note with this number if it still exists.
void take_back_note(WakeNotes *notes, std::uint64_t number) noexcept;

}  // namespace jobq::core
