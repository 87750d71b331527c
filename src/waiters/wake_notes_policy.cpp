// See wake_notes_policy.h. The notes are in the order in which they were added.
#include "waiters/wake_notes_policy.h"

#include "core/stable_hash.h"

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

void forget_old(WakeNotes *notes, Micros now) {
    remove(notes, [&](const WakeNote &note) { return saturating_subtract(now, note.left_at) > kWakeNoteKept; });
}

struct Share {
    std::uint32_t database;
    int notes;
};

// Returns the number of the note to evict, which is the oldest note of the database that has the most notes. The new
// note of `database` also counts. If several databases are tied, chooses the database with the oldest note.
std::uint64_t note_to_evict(const WakeNotes &notes, std::uint32_t database) {
    Share shares[kWakeNotes + 1];
    Share *end = shares;
    const auto count = [&](std::uint32_t of) {
        Share *share = std::find_if(shares, end, [&](const Share &each) { return each.database == of; });
        if (share == end) *end++ = {of, 0};
        share->notes++;
    };
    for (int i = 0; i < notes.used; i++) count(notes.notes[i].database);
    count(database);
    // If several databases have the same number of notes, selects the first of these databases, which has the oldest
    // note.
    const Share *largest =
        std::max_element(shares, end, [](const Share &a, const Share &b) { return a.notes < b.notes; });
    const WakeNote *oldest = notes.notes;
    while (oldest->database != largest->database) oldest++;
    return oldest->number;
}

}  // namespace

std::int64_t worker_key(std::string_view worker_id) noexcept {
    const std::int64_t hash = stable_hash(worker_id);
    return hash == 0 ? 1 : hash;
}

std::uint64_t leave_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept {
    remove(notes, [&](const WakeNote &note) { return is_for(note, database, worker); });
    if (notes->used == kWakeNotes) forget_old(notes, now);
    if (notes->used == kWakeNotes) {
        take_back_note(notes, note_to_evict(*notes, database));
        notes->evicted++;
    }
    notes->notes[notes->used++] = {worker, ++notes->last_number, now, database};
    return notes->last_number;
}

bool take_note(WakeNotes *notes, std::uint32_t database, std::int64_t worker, Micros now) noexcept {
    forget_old(notes, now);
    const int before = notes->used;
    remove(notes, [&](const WakeNote &note) { return is_for(note, database, worker); });
    return notes->used < before;
}

void take_back_note(WakeNotes *notes, std::uint64_t number) noexcept {
    remove(notes, [&](const WakeNote &note) { return note.number == number; });
}

}  // namespace jobq::core
