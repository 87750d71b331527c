// Notes of wakes that found the worker not asleep. Each note ends the next wait of its worker, until the note expires.
// Pure: time is an argument. wait/wake_notes.h keeps the notes in shared memory.
#pragma once

#include "core/job.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// Maximum number of notes in the server. If there are more, the oldest note of the database with the most notes is
// evicted, so that no database evicts the notes of others.
constexpr int kWakeNotes = 1024;
constexpr Micros kWakeNoteKept = kMinute;

// Returns the key of a worker's name in shared memory. Never 0, which stands for a worker without a name. A collision
// of two names ends a wait too early.
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

// Leaves a note, which replaces an older one for the same worker; returns its number.
std::uint64_t leave_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept;

// Takes the worker's note; returns false if there is none or it has expired. Removes all expired notes.
bool take_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept;

// Removes the note with this number if it still exists.
void take_back_note(WakeNotes *notes, std::uint64_t number) noexcept;

}  // namespace jobq::core
