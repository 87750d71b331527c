// Tests the empty ranges of a lane: learning and forgetting at every edge, and at random against a simple set.
#include "lanes/empty_ranges_policy.h"
#include "print_claim_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

namespace jobq::core {

namespace {

ClaimKey id(std::int64_t number) { return {0, number, 0}; }
KeyRange ids(std::int64_t from, std::int64_t to) { return {id(from), id(to)}; }

// Returns the ranges as pairs of ids; only for ranges made by ids().
std::vector<std::pair<std::int64_t, std::int64_t>> pairs(const EmptyRanges &ranges) {
    std::vector<std::pair<std::int64_t, std::int64_t>> result;
    for (int i = 0; i < ranges.count; i++)
        result.emplace_back(ranges.items[i].keys.from.id, ranges.items[i].keys.to.id);
    return result;
}
using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

EmptyRanges learned(const Pairs &ranges, std::int64_t passed = 1) {
    EmptyRanges empty = {};
    for (const auto &range : ranges) add_empty(&empty, ids(range.first, range.second), passed);
    return empty;
}

void expect_sound(const EmptyRanges &ranges) {
    ASSERT_GE(ranges.count, 0);
    ASSERT_LE(ranges.count, kMaxEmptyRanges);
    for (int i = 0; i < ranges.count; i++) {
        EXPECT_LT(ranges.items[i].keys.from, ranges.items[i].keys.to);
        if (i == 0) continue;
        EXPECT_LT(ranges.items[i - 1].keys.to, ranges.items[i].keys.from) << "overlap, touch or disorder";
    }
}

// ---- skip

TEST(SkipEmpty, ReturnsTheKeyWithoutRanges) {
    const EmptyRanges none = {};
    EXPECT_EQ(skip_empty(none, kFirstKey), kFirstKey);
    EXPECT_EQ(skip_empty(none, id(5)), id(5));
    EXPECT_EQ(skip_empty(none, kLastKey), kLastKey);
}

TEST(SkipEmpty, MovesToTheEndOfTheRangeOfTheKey) {
    const EmptyRanges empty = learned({{10, 20}, {30, 40}});
    EXPECT_EQ(skip_empty(empty, id(9)), id(9));
    EXPECT_EQ(skip_empty(empty, id(10)), id(20));
    EXPECT_EQ(skip_empty(empty, id(19)), id(20));
    EXPECT_EQ(skip_empty(empty, id(20)), id(20)) << "the end is not in the range";
    EXPECT_EQ(skip_empty(empty, id(29)), id(29));
    EXPECT_EQ(skip_empty(empty, id(35)), id(40));
    EXPECT_EQ(skip_empty(empty, id(40)), id(40));
}

TEST(SkipEmpty, SkipsAnEmptyLane) {
    EmptyRanges empty = {};
    add_empty(&empty, {kFirstKey, kLastKey}, 0);
    EXPECT_EQ(skip_empty(empty, kFirstKey), kLastKey);
    EXPECT_EQ(skip_empty(empty, id(1)), kLastKey);
    EXPECT_EQ(skip_empty(empty, kLastKey), kLastKey);
}

// ---- learn

TEST(LearnEmpty, IgnoresAnInvalidRange) {
    EmptyRanges empty = {};
    add_empty(&empty, ids(5, 5), 1);
    add_empty(&empty, ids(6, 5), 1);
    add_empty(&empty, {kLastKey, kLastKey}, 1);
    add_empty(&empty, {kLastKey, kFirstKey}, 1);
    EXPECT_EQ(empty.count, 0);
}

TEST(LearnEmpty, KeepsRangesInOrder) {
    EXPECT_EQ(pairs(learned({{50, 60}, {10, 20}, {30, 40}})), (Pairs{{10, 20}, {30, 40}, {50, 60}}));
}

TEST(LearnEmpty, MergesAdjacentRanges) {
    EXPECT_EQ(pairs(learned({{10, 20}, {20, 30}})), (Pairs{{10, 30}}));
    EXPECT_EQ(pairs(learned({{20, 30}, {10, 20}})), (Pairs{{10, 30}}));
    EXPECT_EQ(pairs(learned({{10, 20}, {30, 40}, {20, 30}})), (Pairs{{10, 40}})) << "a bridge";
}

TEST(LearnEmpty, DoesNotMergeAcrossASingleKey) {
    EXPECT_EQ(pairs(learned({{10, 20}, {21, 30}})), (Pairs{{10, 20}, {21, 30}}));
}

TEST(LearnEmpty, MergesOverlappingRanges) {
    EXPECT_EQ(pairs(learned({{10, 20}, {15, 25}})), (Pairs{{10, 25}}));
    EXPECT_EQ(pairs(learned({{15, 25}, {10, 20}})), (Pairs{{10, 25}}));
    EXPECT_EQ(pairs(learned({{10, 20}, {12, 15}})), (Pairs{{10, 20}})) << "inside";
    EXPECT_EQ(pairs(learned({{12, 15}, {10, 20}})), (Pairs{{10, 20}})) << "around";
    EXPECT_EQ(pairs(learned({{10, 20}, {30, 40}, {50, 60}, {5, 55}})), (Pairs{{5, 60}})) << "over several";
}

TEST(LearnEmpty, AddsTheWorthOfMergedRanges) {
    EmptyRanges empty = {};
    add_empty(&empty, ids(10, 20), 3);
    add_empty(&empty, ids(20, 30), 4);
    EXPECT_EQ(empty.items[0].passed, 7);
    add_empty(&empty, ids(30, 40), INT64_MAX);
    EXPECT_GT(empty.items[0].passed, INT64_MAX / 2) << "without overflow";
}

TEST(LearnEmpty, AcceptsTheFirstAndTheLastKey) {
    EmptyRanges empty = {};
    add_empty(&empty, {kFirstKey, id(10)}, 1);
    add_empty(&empty, {id(10), kLastKey}, 1);
    ASSERT_EQ(empty.count, 1);
    EXPECT_EQ(empty.items[0].keys.from, kFirstKey);
    EXPECT_EQ(empty.items[0].keys.to, kLastKey);
}

// ---- more ranges than there is room for

EmptyRanges full(std::int64_t passed) {
    EmptyRanges empty = {};
    for (int i = 0; i < kMaxEmptyRanges; i++) add_empty(&empty, ids(i * 10, i * 10 + 5), passed);
    return empty;
}

TEST(LearnEmpty, EvictsTheLeastValuableRangeWhenFull) {
    EmptyRanges empty = full(10);
    ASSERT_EQ(empty.count, kMaxEmptyRanges);
    empty.items[4].passed = 2;
    add_empty(&empty, ids(1000, 1001), 5);
    expect_sound(empty);
    EXPECT_EQ(empty.count, kMaxEmptyRanges);
    EXPECT_EQ(skip_empty(empty, id(42)), id(42)) << "the fifth is gone";
    EXPECT_EQ(skip_empty(empty, id(32)), id(35));
    EXPECT_EQ(skip_empty(empty, id(1000)), id(1001));
}

TEST(LearnEmpty, DropsTheNewRangeIfItIsWorthLeast) {
    EmptyRanges empty = full(10);
    const Pairs before = pairs(empty);
    add_empty(&empty, ids(1000, 1001), 10);
    EXPECT_EQ(pairs(empty), before) << "equals: the one that is there stays";
    add_empty(&empty, ids(47, 48), 9);
    EXPECT_EQ(pairs(empty), before);
}

TEST(LearnEmpty, MergingNeedsNoRoom) {
    EmptyRanges empty = full(10);
    add_empty(&empty, ids(5, 7), 0);
    EXPECT_EQ(empty.count, kMaxEmptyRanges);
    EXPECT_EQ(skip_empty(empty, id(0)), id(7));
    add_empty(&empty, ids(7, 10), 0);
    EXPECT_EQ(empty.count, kMaxEmptyRanges - 1);
    EXPECT_EQ(skip_empty(empty, id(0)), id(15));
}

// ---- forget

TEST(ForgetEmpty, SplitsARange) {
    EmptyRanges empty = learned({{10, 20}});
    forget_empty(&empty, id(15), id(15));
    EXPECT_EQ(pairs(empty), (Pairs{{10, 15}, {16, 20}}));
    forget_empty(&empty, id(12), id(13));
    EXPECT_EQ(pairs(empty), (Pairs{{10, 12}, {14, 15}, {16, 20}}));
}

TEST(ForgetEmpty, ShortensARangeAtItsEdges) {
    EmptyRanges empty = learned({{10, 20}});
    forget_empty(&empty, id(10), id(10));
    EXPECT_EQ(pairs(empty), (Pairs{{11, 20}}));
    forget_empty(&empty, id(19), id(19));
    EXPECT_EQ(pairs(empty), (Pairs{{11, 19}}));
    forget_empty(&empty, id(11), id(18));
    EXPECT_EQ(empty.count, 0);
}

TEST(ForgetEmpty, IgnoresKeysOutsideOfRanges) {
    EmptyRanges empty = learned({{10, 20}, {30, 40}});
    const Pairs before = pairs(empty);
    forget_empty(&empty, id(9), id(9));
    forget_empty(&empty, id(20), id(29));
    forget_empty(&empty, id(40), kLastKey);
    forget_empty(&empty, kFirstKey, id(9));
    EXPECT_EQ(pairs(empty), before);
}

TEST(ForgetEmpty, CutsSeveralRanges) {
    EmptyRanges empty = learned({{10, 20}, {30, 40}, {50, 60}, {70, 80}});
    forget_empty(&empty, id(15), id(54));
    EXPECT_EQ(pairs(empty), (Pairs{{10, 15}, {55, 60}, {70, 80}}));
    forget_empty(&empty, id(15), id(70));
    EXPECT_EQ(pairs(empty), (Pairs{{10, 15}, {71, 80}}));
    forget_empty(&empty, kFirstKey, kLastKey);
    EXPECT_EQ(empty.count, 0);
}

TEST(ForgetEmpty, AcceptsTheFirstAndTheLastKey) {
    EmptyRanges empty = {};
    add_empty(&empty, {kFirstKey, kLastKey}, 1);
    forget_empty(&empty, kLastKey, kLastKey);
    EXPECT_EQ(empty.count, 1) << "nothing lies at the last key";
    forget_empty(&empty, kFirstKey, kFirstKey);
    ASSERT_EQ(empty.count, 1);
    EXPECT_EQ(empty.items[0].keys.from, next_key(kFirstKey));
    EXPECT_EQ(skip_empty(empty, kFirstKey), kFirstKey);
    const ClaimKey before_last = {INT64_MAX, INT64_MAX - 1, INT16_MAX};
    forget_empty(&empty, before_last, before_last);
    ASSERT_EQ(empty.count, 1) << "nothing is left after it";
    EXPECT_EQ(empty.items[0].keys.to, before_last);
}

TEST(ForgetEmpty, DropsAPartIfThereIsNoRoomForBoth) {
    EmptyRanges empty = full(10);
    forget_empty(&empty, id(22), id(22));
    expect_sound(empty);
    EXPECT_EQ(skip_empty(empty, id(22)), id(22));
    empty = full(10);
    for (EmptyRange &range : empty.items) range.passed = 100;
    empty.items[0].passed = 1;
    forget_empty(&empty, id(112), id(112));
    expect_sound(empty);
    EXPECT_EQ(skip_empty(empty, id(112)), id(112));
    EXPECT_EQ(skip_empty(empty, id(110)), id(112));
    EXPECT_EQ(skip_empty(empty, id(113)), id(115));
    EXPECT_EQ(skip_empty(empty, id(0)), id(0)) << "the least valuable made room";
}

// ---- the worth of the rest of a range

std::vector<std::int64_t> worths(const EmptyRanges &ranges) {
    std::vector<std::int64_t> result;
    for (int i = 0; i < ranges.count; i++) result.push_back(ranges.items[i].passed);
    return result;
}
using Worths = std::vector<std::int64_t>;

TEST(ForgetEmpty, SplitsTheWorthOfTheRange) {
    EmptyRanges empty = {};
    add_empty(&empty, {kFirstKey, kLastKey}, 1000);
    forget_empty(&empty, id(50), id(50));
    EXPECT_EQ(worths(empty), (Worths{500, 500})) << "the positions of the entries are unknown";
    forget_empty(&empty, id(60), id(60));
    EXPECT_EQ(worths(empty), (Worths{500, 9, 491})) << "between two jobs there are no more entries than ids";
    forget_empty(&empty, id(61), id(70));
    EXPECT_EQ(worths(empty), (Worths{500, 9, 491})) << "at the edge";
    add_empty(&empty, {kFirstKey, kLastKey}, 0);
    EXPECT_EQ(worths(empty), (Worths{1000}));
}

TEST(ForgetEmpty, SplitsARangeOfLittleWorth) {
    EmptyRanges empty = learned({{10, 100}}, 1);
    forget_empty(&empty, id(50), id(50));
    EXPECT_EQ(worths(empty), (Worths{1, 0}));
    forget_empty(&empty, id(20), id(20));
    EXPECT_EQ(worths(empty), (Worths{1, 0, 0}));
}

TEST(ForgetEmpty, IgnoresNegativeIdsForTheWorth) {
    EmptyRanges empty = {};
    add_empty(&empty, ids(INT64_MIN, INT64_MAX), 10);
    forget_empty(&empty, id(-5), id(-5));
    EXPECT_EQ(worths(empty), (Worths{5, 5}));
}

// Of ten priorities, seven are continuously used up and refilled, three calls at a time. The ranges of the other three
// survive the time gaps between the jobs of one call and those of the next.
TEST(EmptyRanges, GapsBetweenNewJobsEvictNoValuableRanges) {
    constexpr std::int16_t kUsedUp = 7, kPriorities = 10;
    // The first or the last of the hundred jobs of a priority in a batch of a thousand jobs.
    const auto key = [](int batch, std::int16_t priority, int more = 0) {
        return ClaimKey{batch, 1000 * batch + priority + more, priority};
    };
    const auto first_of = [](std::int16_t priority) { return ClaimKey{INT64_MIN, INT64_MIN, priority}; };
    EmptyRanges empty = {};
    for (int round = 1; round <= 20; round++) {
        add_empty(&empty, {kFirstKey, key(round, kUsedUp)}, 64);
        for (std::int16_t p = kUsedUp + 1; p < kPriorities; p++) add_empty(&empty, {first_of(p), key(round, p)}, 64);
        for (int batch = 100 * round; batch < 100 * round + 3; batch++)
            for (std::int16_t p = 0; p < kUsedUp; p++) forget_empty(&empty, key(batch, p), key(batch, p, 990));
        expect_sound(empty);
        for (std::int16_t p = kUsedUp + 1; p < kPriorities; p++)
            EXPECT_EQ(skip_empty(empty, first_of(p)), key(round, p)) << "round " << round << ", priority " << p;
    }
}

// ---- at random, against a set of keys

// Returns key number n, at positions where the next key has another id, another time, or another priority, or is the
// last key.
using Place = ClaimKey (*)(int);
ClaimKey walk(ClaimKey from, int n) {
    for (int i = 0; i < n; i++) from = next_key(from);
    return from;
}
constexpr int kKeys = 120;
const Place kPlaces[] = {
    [](int n) { return id(n); },
    [](int n) {
        return walk({100, INT64_MAX - kKeys / 2, 0}, n);
    },
    [](int n) {
        return walk({INT64_MAX, INT64_MAX - kKeys / 2, -1}, n);
    },
    [](int n) { return walk(kFirstKey, n); },
    [](int n) {
        return walk({INT64_MAX, INT64_MAX - kKeys, INT16_MAX}, n);
    },
};

class Model {
 public:
    Model(unsigned seed, Place place) : random_(seed), empty_(kKeys, false) {
        for (int n = 0; n <= kKeys; n++) keys_.push_back(place(n));
    }

    void step() {
        const int a = number(kKeys), b = number(kKeys);
        const int from = std::min(a, b), to = std::max(a, b);
        if (number(5) > 1) {
            const std::int64_t passed = number(10);
            const int end = std::min(to, from + number(number(40) == 0 ? kKeys : 4));
            add_empty(&ranges_, {keys_[from], keys_[end]}, passed);
            std::fill(empty_.begin() + from, empty_.begin() + end, true);
            log_ << "learn " << from << " to " << end << " worth " << passed << "\n";
        } else {
            const int last = std::min(to, from + number(number(40) == 0 ? kKeys : 2));
            forget_empty(&ranges_, keys_[from], keys_[last]);
            std::fill(empty_.begin() + from, empty_.begin() + std::min(last + 1, kKeys), false);
            log_ << "forget " << from << " to " << last << "\n";
        }
        full_ = full_ || ranges_.count == kMaxEmptyRanges;
    }

    void check() const {
        expect_sound(ranges_);
        for (int n = 0; n < kKeys; n++) {
            const ClaimKey to = skip_empty(ranges_, keys_[n]);
            const bool skipped = keys_[n] < to;
            EXPECT_TRUE(!skipped || empty_[n]) << n << " is skipped, but was not learned\n" << log_.str();
            // As long as there is room for all ranges, nothing is forgotten.
            EXPECT_TRUE(full_ || skipped == empty_[n]) << n << "\n" << log_.str();
            EXPECT_EQ(skip_empty(ranges_, to), to) << "one skip is enough";
            EXPECT_LE(keys_[n], to);
            for (int m = n; m < kKeys && keys_[m] < to; m++) EXPECT_TRUE(empty_[m]) << n << " skips " << m;
        }
    }

    bool was_full() const { return full_; }

 private:
    int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

    std::mt19937 random_;
    std::vector<ClaimKey> keys_;
    std::vector<bool> empty_;
    EmptyRanges ranges_ = {};
    bool full_ = false;
    std::ostringstream log_;
};

TEST(EmptyRanges, HavePossibleKeysBetweenThem) {
    const EmptyRanges empty = learned({{1, 10}, {20, 30}});
    Pairs possible;
    for (KeyRange keys = next_possible(empty, id(0)); keys.from < keys.to; keys = next_possible(empty, keys.to))
        possible.emplace_back(keys.from.id, keys.to == kLastKey ? INT64_MAX : keys.to.id);
    EXPECT_EQ(possible, (Pairs{{0, 1}, {10, 20}, {30, INT64_MAX}}));
    EXPECT_EQ(next_possible(empty, id(5)).from, id(10));
    EXPECT_EQ(next_possible(EmptyRanges{}, kFirstKey).to, kLastKey);
    EmptyRanges all = {};
    add_empty(&all, {kFirstKey, kLastKey}, 1);
    const KeyRange none = next_possible(all, kFirstKey);
    EXPECT_EQ(none.from, none.to);
}

TEST(EmptyRanges, MatchASetOfKeys) {
    int overflowed = 0;
    for (const Place place : kPlaces) {
        for (unsigned seed = 0; seed < 60; seed++) {
            Model model(seed, place);
            for (int step = 0; step < 60; step++) {
                model.step();
                model.check();
                if (HasFailure()) FAIL() << "seed " << seed;
            }
            overflowed += model.was_full() ? 1 : 0;
        }
    }
    EXPECT_GT(overflowed, 10) << "sequences that had more ranges than there is room for";
}

}  // namespace
}  // namespace jobq::core
