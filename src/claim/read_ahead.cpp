// See read_ahead.h.
#include "compat/pg.h"

#include "claim/read_ahead.h"
#include "core/stable_hash.h"
#include "lanes/empty_ranges.h"

namespace jobq {

namespace {

using core::ClaimKey;

constexpr int kGuesses = 256;
constexpr int kFirstLook = 2;
// Minimum number of index entries that a guess (see read_ahead.h) must cover to be worth sharing with other sessions.
constexpr int kWorthTelling = 8;

// The session's guess of how far the scans that begin in one priority of a lane will go. The guess for another priority
// or lane can overwrite it.
struct Guess {
    int64 lane;
    int16 priority;
    int16 ahead;  // number of entries to read after the first match; 0: no guess. Doubles when all of them were used
    ClaimKey end;
};

Guess guesses[kGuesses];

// The priorities of a lane have neighboring places, because a claim uses the guesses of all of them.
Guess *place_of(int64 lane, int16 priority) {
    return &guesses[(core::mix64(static_cast<uint64>(lane)) + static_cast<uint16>(priority)) % kGuesses];
}

// Returns the guess for this priority of the lane, or nullptr if there is none.
Guess *guess_of(int64 lane, int16 priority) {
    Guess *guess = place_of(lane, priority);
    return guess->ahead > 0 && guess->lane == lane && guess->priority == priority ? guess : nullptr;
}

}  // namespace

void expect_claims(ReadyScan *ready, int64 lane) {
    ClaimKey end;
    if (pass_entries(ready, kReadAhead, &end) >= kWorthTelling) expect_end(lane, end);
}

void expect_claims_of_priority(ReadyScan *ready, int64 lane, const ClaimKey &from) {
    ClaimKey end;
    if (pass_entries(ready, kReadAhead, &end) < kWorthTelling) return;
    expect_end(lane, end);
    *place_of(lane, from.priority) = {lane, from.priority, kReadAhead, end};
}

ClaimKey expected_in_priority(int64 lane, const ClaimKey &from, const ClaimKey &shared) {
    const Guess *own = guess_of(lane, from.priority);
    if (own == nullptr || own->end < from) return shared;
    return shared.priority == from.priority && own->end < shared ? shared : own->end;
}

void expect_looks(ReadyScan *ready, int64 lane, const ClaimKey &from) {
    const Guess *known = guess_of(lane, from.priority);
    const int ahead = known == nullptr ? kFirstLook : Min(2 * known->ahead, kReadAhead);
    ClaimKey end;
    const int passed = pass_entries(ready, ahead, &end);
    if (passed < 0) return;
    if (passed < kFirstLook)
        expect_nothing(lane, from);
    else
        *place_of(lane, from.priority) = {lane, from.priority, static_cast<int16>(ahead), end};
}

void expect_nothing(int64 lane, const ClaimKey &from) {
    if (Guess *guess = guess_of(lane, from.priority)) guess->ahead = 0;
}

}  // namespace jobq
