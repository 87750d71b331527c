// Tests the hash of lanes, which is stored in tables, and which worker may claim from which lane.
#include "core/lane.h"

#include "hash_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace jobq::core {
namespace {

using Views = std::vector<std::string_view>;

std::int64_t hash(std::string_view queue, std::string_view kind, std::int32_t version, const Views &needs = {}) {
    return lane_hash(kTestSecret, queue, kind, version, needs.data(), static_cast<int>(needs.size()));
}

Views canonical(Views items) {
    items.resize(static_cast<std::size_t>(canonical_set(items.data(), static_cast<int>(items.size()))));
    return items;
}

// Computed by an independent implementation. A change would orphan every stored job, so it must never happen.
TEST(LaneHash, HasTheStoredValues) {
    EXPECT_EQ(hash("", "", 0), -7113212434637161392);
    EXPECT_EQ(hash("default", "", 0), 7084711475438610683);
    EXPECT_EQ(hash("emails", "", 0), 5647410900401564539);
    EXPECT_EQ(hash("emails", "welcome", 0), -8245303588523200932);
    EXPECT_EQ(hash("emails", "welcome", 1), 5430999492579062589);
    EXPECT_EQ(hash("emails", "welcome", -1), -2124510540192511876);
    EXPECT_EQ(hash("emails", "welcome", INT_MAX), 175310168240254431);
    EXPECT_EQ(hash("emails", "welcome", INT_MIN), 7568351345124545301);
    EXPECT_EQ(hash("videos", "encode", 3, {"gpu"}), 4578131249234600158);
    EXPECT_EQ(hash("videos", "encode", 3, {"gpu", "h264"}), -7628028471246062348);
    EXPECT_EQ(hash("videos", "encode", 3, {""}), -5563968161461925605);
    EXPECT_EQ(hash("gr\xc3\xb6\xc3\x9f"
                   "e",
                   "\xe6\x97\xa5\xe6\x9c\xac", 7, {"\xff\x80"}),
              8750356652498249451);
    EXPECT_EQ(hash(std::string_view("a\0b", 3), "", 0), 1099355878482250243);
}

TEST(LaneHash, HasTheStoredValueForTheLongestLane) {
    const std::string queue(63, 'q');
    const std::string kind(255, 'k');
    std::vector<std::string> names;
    for (int i = 0; i < 64; i++)
        names.push_back(std::string("c") + static_cast<char>('0' + i / 10) + static_cast<char>('0' + i % 10));
    const Views needs(names.begin(), names.end());
    EXPECT_EQ(hash(queue, kind, 42, needs), 7170114931057355638);
}

TEST(LaneHash, DependsOnEveryPartAndOnItsBoundaries) {
    const std::vector<std::int64_t> hashes = {hash("ab", "c", 0),
                                              hash("a", "bc", 0),
                                              hash("abc", "", 0),
                                              hash("", "abc", 0),
                                              hash("ab", "c", 1),
                                              hash("ab", "c", 256),
                                              hash("ab", "c", 0, {""}),
                                              hash("ab", "c", 0, {"", "x"}),
                                              hash("ab", "c", 0, {"x"}),
                                              hash("ab", "", 0, {"c"}),
                                              hash("a", "b", 0, {"c"}),
                                              hash("a", "b", 0, {"cd"}),
                                              hash("Ab", "c", 0),
                                              hash("a", "b", 0, {"c", "d"}),
                                              hash("ab", "c", 0, {"x", "y"}),
                                              hash("ab ", "c", 0)};
    EXPECT_EQ(std::set<std::int64_t>(hashes.begin(), hashes.end()).size(), hashes.size());
}

TEST(LaneHash, DistinguishesLimits) {
    const std::string_view names[] = {"a", "b"};
    const auto limited = [&](int required, int limits) {
        return lane_hash(kTestSecret, "emails", "", 0, names, required, names, limits);
    };
    EXPECT_EQ(limited(1, 0), hash("emails", "", 0, {"a"}));
    const std::set<std::int64_t> hashes = {limited(0, 0), limited(0, 1), limited(0, 2),
                                           limited(1, 0), limited(1, 1), limited(2, 1)};
    EXPECT_EQ(hashes.size(), 6u);
}

TEST(LaneHash, DependsOnTheSecret) {
    EXPECT_NE(lane_hash(kOtherSecret, "emails", "", 0, nullptr, 0), hash("emails", "", 0));
}

// These two kinds gave the lanes of both queues the same number when the hash had no secret (FNV-1a). Groups and limits
// hash the same prefix.
TEST(LaneHash, DistinguishesNamesThatCollideUnderFnv) {
    const std::string_view twin =
        "\x0f,\x1a\x08\x1a\x16r\x16\x0e\x16\x04\x13"
        "6)\x1c\x06x\x05\x09\x0c"
        "61\x16\x08";
    EXPECT_NE(hash("grants mine", twin, 0), hash("grants theirs", "twin", 0));
}

TEST(LaneHash, TreatsANegativeCountOfRequirementsAsZero) {
    EXPECT_EQ(lane_hash(kTestSecret, "emails", "", 0, nullptr, -1), hash("emails", "", 0));
    EXPECT_EQ(lane_hash(kTestSecret, "emails", "", 0, nullptr, 0), hash("emails", "", 0));
}

TEST(LaneHash, HasNoCollisionsAmongManyLanesAndUsesEveryBit) {
    std::set<std::int64_t> seen;
    std::vector<int> ones(64, 0);
    int lanes = 0;
    for (int queue = 0; queue < 100; queue++) {
        const std::string queue_name = "queue-" + std::to_string(queue);
        for (int kind = 0; kind < 50; kind++) {
            const std::string kind_name = "kind" + std::to_string(kind);
            for (int version = 0; version < 10; version++) {
                const std::int64_t lane = hash(queue_name, kind_name, version);
                seen.insert(lane);
                lanes++;
                for (int bit = 0; bit < 64; bit++)
                    ones[static_cast<std::size_t>(bit)] += static_cast<int>((lane >> bit) & 1);
            }
        }
    }
    EXPECT_EQ(static_cast<int>(seen.size()), lanes);
    for (const int count : ones) EXPECT_NEAR(count, lanes / 2, lanes / 50);
}

TEST(CanonicalSet, SortsAndDropsDuplicates) {
    EXPECT_EQ(canonical({"b", "a", "b", "a", "c"}), (Views{"a", "b", "c"}));
    EXPECT_EQ(canonical({"x"}), Views{"x"});
    EXPECT_EQ(canonical({"x", "x", "x"}), Views{"x"});
    EXPECT_EQ(canonical({}), Views{});
    EXPECT_EQ(canonical({"a", "", "ab", ""}), (Views{"", "a", "ab"}));
    EXPECT_EQ(canonical_set(nullptr, 0), 0);
    EXPECT_EQ(canonical_set(nullptr, 5), 0);
}

TEST(CanonicalSet, OrdersByBytesInAnyLocale) {
    EXPECT_EQ(canonical({"\xff", "z", "\x80", "A", "a", "Z", "\xc3\xa4"}),
              (Views{"A", "Z", "a", "z", "\x80", "\xc3\xa4", "\xff"}));
    EXPECT_EQ(canonical({std::string_view("a\0b", 3), "a"}), (Views{"a", std::string_view("a\0b", 3)}));
}

TEST(CanonicalSet, TheOrderOfRequirementsDoesNotChangeTheLane) {
    Views items = {"a", "b", "c", "d"};
    const std::int64_t expected = hash("q", "k", 0, items);
    int orders = 0;
    do {
        Views doubled = items;
        doubled.insert(doubled.end(), items.begin(), items.end());
        EXPECT_EQ(hash("q", "k", 0, canonical(doubled)), expected);
        orders++;
    } while (std::next_permutation(items.begin(), items.end()));
    EXPECT_EQ(orders, 24);
}

bool matches(const WorkerFilter &filter, std::string_view kind, std::int32_t version, const Views &needs = {}) {
    return lane_matches(filter, kind, version, needs.data(), static_cast<int>(needs.size()));
}

TEST(LaneMatches, AnyKindAndVersionWithoutRequirements) {
    const WorkerFilter any = {};
    EXPECT_TRUE(matches(any, "", 0));
    EXPECT_TRUE(matches(any, "mail", INT_MIN));
    EXPECT_FALSE(matches(any, "mail", 0, {"gpu"})) << "a worker without capabilities must not see it";
    EXPECT_FALSE(matches(any, "mail", 0, {""}));
}

TEST(LaneMatches, OnlyTheNamedKinds) {
    const Views kinds = {"mail", "sms"};
    const WorkerFilter filter = {kinds.data(), 2, nullptr, 0, nullptr, 0};
    EXPECT_TRUE(matches(filter, "mail", 0));
    EXPECT_TRUE(matches(filter, "sms", 9));
    EXPECT_FALSE(matches(filter, "", 0));
    EXPECT_FALSE(matches(filter, "Mail", 0));
    EXPECT_FALSE(matches(filter, "mai", 0));
    EXPECT_FALSE(matches(filter, "mails", 0));
}

TEST(LaneMatches, OnlyTheNamedVersions) {
    const std::int32_t versions[] = {3, 1, -7};
    const WorkerFilter filter = {nullptr, 0, versions, 3, nullptr, 0};
    EXPECT_TRUE(matches(filter, "k", 1));
    EXPECT_TRUE(matches(filter, "k", 3));
    EXPECT_TRUE(matches(filter, "k", -7));
    EXPECT_FALSE(matches(filter, "k", 2));
    EXPECT_FALSE(matches(filter, "k", 0));
    EXPECT_FALSE(matches(filter, "k", 7));
}

TEST(LaneMatches, NothingForAnEmptyList) {
    const std::string_view none[] = {""};
    const std::int32_t no_version[] = {0};
    EXPECT_FALSE(matches({none, 0, nullptr, 0, nullptr, 0}, "", 0));
    EXPECT_FALSE(matches({nullptr, 0, no_version, 0, nullptr, 0}, "", 0));
    EXPECT_FALSE(matches({none, -1, nullptr, 0, nullptr, 0}, "", 0));
    EXPECT_FALSE(matches({nullptr, 0, no_version, INT_MIN, nullptr, 0}, "", 0));
    EXPECT_FALSE(matches({nullptr, 0, nullptr, 0, none, 0}, "", 0, {""}));
}

TEST(LaneMatches, OnlyIfAllConditionsHold) {
    const Views kinds = {"encode"};
    const std::int32_t versions[] = {2};
    const Views capabilities = {"gpu", "h264"};
    const WorkerFilter filter = {kinds.data(), 1, versions, 1, capabilities.data(), 2};
    EXPECT_TRUE(matches(filter, "encode", 2, {"gpu"}));
    EXPECT_FALSE(matches(filter, "decode", 2, {"gpu"}));
    EXPECT_FALSE(matches(filter, "encode", 1, {"gpu"}));
    EXPECT_FALSE(matches(filter, "encode", 2, {"gpu", "tpu"}));
}

TEST(FitOf, ReturnsTheFirstPartThatDoesNotMatch) {
    const Views kinds = {"encode"};
    const std::int32_t versions[] = {2};
    const Views capabilities = {"gpu"};
    const Views needs = {"gpu", "h264"};
    const WorkerFilter filter = {kinds.data(), 1, versions, 1, capabilities.data(), 1};
    EXPECT_EQ(fit_of(filter, "decode", 1, needs.data(), 2), Fit::NotKind);
    EXPECT_EQ(fit_of(filter, "encode", 1, needs.data(), 2), Fit::NotVersion);
    EXPECT_EQ(fit_of(filter, "encode", 2, needs.data(), 2), Fit::NotCapabilities);
    EXPECT_EQ(fit_of(filter, "encode", 2, needs.data(), 1), Fit::Takes);
    EXPECT_EQ(fit_of({}, "encode", 2, needs.data(), 1), Fit::NotCapabilities);
    EXPECT_EQ(fit_of({}, "anything", 7, nullptr, 0), Fit::Takes);
}

TEST(LaneMatches, OnlyIfTheRequirementsAreASubsetOfTheCapabilities) {
    // Every subset against every subset of six names, including duplicate capabilities.
    const Views names = {"", "a", "ab", "b", "c\x80", "c\xff"};
    const int sets = 1 << names.size();
    const auto subset = [&](int bits) {
        Views chosen;
        for (std::size_t i = 0; i < names.size(); i++)
            if ((bits >> i & 1) != 0) chosen.push_back(names[i]);
        return chosen;
    };
    for (int has = 0; has < sets; has++) {
        const Views capabilities = subset(has);
        const WorkerFilter filter = {
            nullptr, 0, nullptr, 0, capabilities.data(), static_cast<int>(capabilities.size())};
        for (int needs = 0; needs < sets; needs++)
            EXPECT_EQ(matches(filter, "k", 0, subset(needs)), (needs & ~has) == 0) << has << " " << needs;
    }
}

}  // namespace
}  // namespace jobq::core
