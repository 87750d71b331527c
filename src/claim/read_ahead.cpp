// See read_ahead.h.
#include "compat/pg.h"

#include "base/stable_hash.h"
#include "claim/read_ahead.h"
#include "lanes/empty_ranges.h"

namespace jobq {

namespace {

using core::ClaimKey;

constexpr int kGuesses = 256;
constexpr int kFirstLook = 2;

// Of the looks that begin in one priority of a lane; those of another may take its place.
struct Guess {
    int64 lane;
    int16 priority;
    int16 ahead;  // so many entries behind the one that was found: 0: no guess. More, the sooner these were used up
    ClaimKey end;
};

Guess guesses[kGuesses];

Guess *guess_of(int64 lane, int16 priority) {
    const uint64 place = core::mix64(static_cast<uint64>(lane) + static_cast<uint16>(priority));
    return &guesses[place % kGuesses];
}

bool is_of(const Guess &guess, int64 lane, int16 priority) {
    return guess.ahead > 0 && guess.lane == lane && guess.priority == priority;
}

}  // namespace

void expect_claims(ReadyScan *ready, int64 lane) {
    ClaimKey end;
    if (pass_entries(ready, kReadAhead, &end)) expect_end(lane, end);
}

ClaimKey expected_look(int64 lane, const ClaimKey &from, const ClaimKey &shared) {
    const Guess &own = *guess_of(lane, from.priority);
    if (!is_of(own, lane, from.priority)) return shared;
    return shared.priority == from.priority && own.end < shared ? shared : own.end;
}

void expect_looks(ReadyScan *ready, int64 lane, const ClaimKey &from) {
    Guess *guess = guess_of(lane, from.priority);
    const int ahead = is_of(*guess, lane, from.priority) ? Min(2 * guess->ahead, kReadAhead) : kFirstLook;
    ClaimKey end;
    if (pass_entries(ready, ahead, &end)) *guess = {lane, from.priority, static_cast<int16>(ahead), end};
}

}  // namespace jobq
