// Notes of wakes that found nobody asleep: see wake_notes_policy.h. In the order in which they were left.
#include "wait/wake_notes_policy.h"

#include "base/stable_hash.h"

#include <algorithm>

namespace jobq::core {

namespace {

template <typename Unwanted>
void remove(WakeNotes *notes, Unwanted unwanted) {
    const WakeNote *end = std::remove_if(notes->notes, notes->notes + notes->used, unwanted);
    notes->used = static_cast<int>(end - notes->notes);
}

bool is_for(const WakeNote &note, std::uint32_t database, std::int64_t worker) {
    return note.database == database && note.worker == worker;
}

}  // namespace

std::int64_t worker_key(std::string_view worker_id) noexcept {
    const std::int64_t hash = stable_hash(worker_id);
    return hash == 0 ? 1 : hash;
}

std::uint64_t leave_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept {
    remove(notes, [&](const WakeNote &note) { return is_for(note, database, worker); });
    if (notes->used == kWakeNotes) take_back_note(notes, notes->notes[0].number);
    notes->notes[notes->used++] = {worker, ++notes->last_number, now, database};
    return notes->last_number;
}

bool take_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept {
    remove(notes, [&](const WakeNote &note) { return saturating_subtract(now, note.left_at) > kWakeNoteKept; });
    const int before = notes->used;
    remove(notes, [&](const WakeNote &note) { return is_for(note, database, worker); });
    return notes->used < before;
}

void take_back_note(WakeNotes *notes, std::uint64_t number) noexcept {
    remove(notes, [&](const WakeNote &note) { return note.number == number; });
}

}  // namespace jobq::core
