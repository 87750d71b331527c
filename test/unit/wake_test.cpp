// Tests which sessions a commit wakes up: for known lanes, for new lanes, and for names that do not fit into shared
// memory.
#include "core/wake.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace jobq::core {
namespace {

using Names = std::vector<std::string_view>;

// The filter of a worker.
struct Filter {
    Names kinds, capabilities;
    std::vector<std::int32_t> versions;
    bool any_kind = true;
    bool any_version = true;

    FilterDigest digest() const {
        WorkerFilter filter = {};
        if (!any_kind) {
            static const std::string_view none;
            filter.kinds = kinds.empty() ? &none : kinds.data();
            filter.kind_count = static_cast<int>(kinds.size());
        }
        if (!any_version) {
            static const std::int32_t none = 0;
            filter.versions = versions.empty() ? &none : versions.data();
            filter.version_count = static_cast<int>(versions.size());
        }
        if (!capabilities.empty()) {
            filter.capabilities = capabilities.data();
            filter.capability_count = static_cast<int>(capabilities.size());
        }
        return digest_of(filter);
    }
};

LaneTraits traits(std::string_view kind, std::int32_t version = 0, const Names &required = {}) {
    return lane_traits(kind, version, required.data(), static_cast<int>(required.size()));
}

// Returns this number of different names, which are never freed.
Names many_names(int count) {
    static std::vector<std::string> storage = [] {
        std::vector<std::string> made;
        for (int i = 0; i < 1000; i++) made.push_back("name " + std::to_string(i));
        return made;
    }();
    return Names(storage.begin(), storage.begin() + count);
}

TEST(FilterDigest, WithoutAFilterMatchesLanesWithoutRequirements) {
    const FilterDigest digest = Filter().digest();
    EXPECT_EQ(wants_lane(digest, traits("")), Wants::Yes);
    EXPECT_EQ(wants_lane(digest, traits("mail", 7)), Wants::Yes);
    EXPECT_EQ(wants_lane(digest, traits("mail", 7, {"gpu"})), Wants::No);
}

TEST(FilterDigest, FiltersByKind) {
    Filter filter;
    filter.any_kind = false;
    EXPECT_EQ(wants_lane(filter.digest(), traits("")), Wants::No) << "an empty list matches nothing";
    filter.kinds = {"mail", "sms"};
    EXPECT_EQ(wants_lane(filter.digest(), traits("sms")), Wants::Yes);
    EXPECT_EQ(wants_lane(filter.digest(), traits("fax")), Wants::No);
    EXPECT_EQ(wants_lane(filter.digest(), traits("")), Wants::No);
}

TEST(FilterDigest, FiltersByVersion) {
    Filter filter;
    filter.any_version = false;
    filter.versions = {1, -2};
    EXPECT_EQ(wants_lane(filter.digest(), traits("x", -2)), Wants::Yes);
    EXPECT_EQ(wants_lane(filter.digest(), traits("x", 2)), Wants::No);
}

TEST(FilterDigest, FiltersByCapabilities) {
    Filter filter;
    filter.capabilities = {"disk", "gpu"};
    EXPECT_EQ(wants_lane(filter.digest(), traits("x", 0, {"gpu"})), Wants::Yes);
    EXPECT_EQ(wants_lane(filter.digest(), traits("x", 0, {"disk", "gpu"})), Wants::Yes);
    EXPECT_EQ(wants_lane(filter.digest(), traits("x", 0, {"disk", "tape"})), Wants::No);
    EXPECT_EQ(wants_lane(filter.digest(), traits("x")), Wants::Yes);
}

// The digest may be imprecise, but it must never be wrong.
TEST(FilterDigest, MatchesTheFilter) {
    const Names names = many_names(100);
    for (int kinds : {0, 1, kDigestKinds, kDigestKinds + 1}) {
        for (int capabilities : {0, 1, kDigestCapabilities, kDigestCapabilities + 1}) {
            const WorkerFilter filter = {names.data(), kinds, nullptr, 0, names.data(), capabilities};
            const FilterDigest digest = digest_of(filter);
            for (int required = 0; required <= kTraitRequirements + 1; required++) {
                for (int kind = 0; kind < 40; kind++) {
                    bool wanted = kind < kinds;
                    for (int r = 0; r < required; r++) wanted &= r < capabilities;
                    const Wants wants = wants_lane(digest, lane_traits(names[kind], 0, names.data(), required));
                    EXPECT_NE(wants, wanted ? Wants::No : Wants::Yes)
                        << kinds << " kinds, " << capabilities << " capabilities, " << required << " required";
                }
            }
        }
    }
}

TEST(FilterDigest, IsUnsureOnlyIfNamesDoNotFit) {
    Filter filter;
    filter.any_kind = filter.any_version = false;
    filter.kinds = many_names(kDigestKinds);
    filter.versions = {1, 2};
    filter.capabilities = {"gpu"};
    EXPECT_FALSE(may_be_unsure(filter.digest(), traits("fax", 1, {"gpu"})));
    EXPECT_TRUE(may_be_unsure(filter.digest(), traits("fax", 1, many_names(kTraitRequirements + 1))));
    filter.capabilities = many_names(kDigestCapabilities + 1);
    EXPECT_TRUE(may_be_unsure(filter.digest(), traits("fax")));
    Filter kinds;
    kinds.any_kind = false;
    kinds.kinds = many_names(kDigestKinds + 1);
    EXPECT_TRUE(may_be_unsure(kinds.digest(), traits("fax")));
}

TEST(FilterDigest, NamesThatDoNotFitMakeTheAnswerMaybe) {
    Filter filter;
    filter.any_kind = false;
    filter.kinds = many_names(kDigestKinds + 1);
    EXPECT_EQ(wants_lane(filter.digest(), traits("fax")), Wants::Maybe);
    filter.kinds = many_names(kDigestKinds);
    EXPECT_EQ(wants_lane(filter.digest(), traits("fax")), Wants::No);

    Filter versions;
    versions.any_version = false;
    for (int i = 0; i <= kDigestVersions; i++) versions.versions.push_back(i);
    EXPECT_EQ(wants_lane(versions.digest(), traits("x", 99)), Wants::Maybe);

    Filter capable;
    capable.capabilities = {"gpu"};
    EXPECT_EQ(wants_lane(capable.digest(), traits("x", 0, many_names(kTraitRequirements + 1))), Wants::Maybe);
    EXPECT_EQ(wants_lane(Filter().digest(), traits("x", 0, many_names(kTraitRequirements + 1))), Wants::No);
}

TEST(WakePolicy, TheHashOfADigestDistinguishesFilters) {
    Filter any, mail, sms, mail_or_sms, version, able;
    mail.any_kind = sms.any_kind = mail_or_sms.any_kind = false;
    mail.kinds = {"mail"};
    sms.kinds = {"sms"};
    mail_or_sms.kinds = {"mail", "sms"};
    version.any_version = false;
    version.versions = {1};
    able.capabilities = {"mail"};
    const Filter *filters[] = {&any, &mail, &sms, &mail_or_sms, &version, &able};
    for (const Filter *one : filters)
        for (const Filter *other : filters)
            EXPECT_EQ(one == other, hash_of_digest(one->digest()) == hash_of_digest(other->digest()));
}

}  // namespace
}  // namespace jobq::core
