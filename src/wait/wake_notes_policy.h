// Notes of wakes that found nobody asleep: each ends the next wait of the worker it was meant for, within a time. Pure:
// time is an argument. Kept in shared memory by wait/wake_notes.h.
#pragma once

#include "job/job_policy.h"

#include <string_view>
#include <type_traits>

namespace jobq::core {

// Maximum number of notes in the server. With more, the oldest note of the database that has the most notes gives way,
// so that no database evicts the notes of others.
constexpr int kWakeNotes = 1024;
constexpr Micros kWakeNoteKept = kMinute;

// A worker's name in shared memory; never 0, which stands for a worker without one. A collision ends a wait too early.
std::int64_t worker_key(std::string_view worker_id) noexcept;

struct WakeNote {
    std::int64_t worker;  // 0: none
    std::uint64_t number;
    Micros left_at;
    std::uint32_t database;
};

struct WakeNotes {
    std::uint64_t last_number;
    int used;  // entries from here on are empty
    WakeNote notes[kWakeNotes];
};
static_assert(std::is_trivially_copyable_v<WakeNotes>, "lives in shared memory");

// Leaves a note, in the place of an older one for the same worker; returns its number.
std::uint64_t leave_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept;

// Takes the worker's note; false when there is none, or its time is over. Forgets all whose time is over.
bool take_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept;

// The note of that number, if it is still there, is not needed.
void take_back_note(WakeNotes *notes, std::uint64_t number) noexcept;

}  // namespace jobq::core
