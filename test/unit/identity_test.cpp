// Tests which database is a copy, and what the start of a server makes of the mark of its data directory.
#include "identity/identity_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace jobq::core {
namespace {

constexpr Place kHere = {71, 16384, 17, 0};

Origin from(Place place, bool copied = false, bool is_template = false) { return {place, copied, is_template}; }

struct Judged {
    Identity identity;
    int foreign;
};
Judged judge(const Place &here, const std::vector<Origin> &origins) {
    Judged judged = {};
    judged.identity = identify(here, origins.data(), static_cast<int>(origins.size()), &judged.foreign);
    return judged;
}
Identity identity_of(const Place &here, const std::vector<Origin> &origins) { return judge(here, origins).identity; }

TEST(Identify, RecognizesTheDatabaseItself) {
    EXPECT_EQ(identity_of(kHere, {from(kHere)}), Identity::Own);
    // A dump that is restored into its own database.
    EXPECT_EQ(identity_of(kHere, {from(kHere), from(kHere)}), Identity::Own);
    // The table has been emptied.
    EXPECT_EQ(identity_of(kHere, {}), Identity::Inherited);
}

TEST(Identify, RecognizesARestoredDump) {
    const Judged judged = judge(kHere, {from(kHere), from({70, 16384, 17, 0})});
    EXPECT_EQ(judged.identity, Identity::Copy);
    EXPECT_EQ(judged.foreign, 1);
    EXPECT_EQ(judge(kHere, {from({71, 16385, 17, 0}), from(kHere)}).foreign, 0);
    // If all rows are marked as copied, the same row shows it.
    EXPECT_EQ(judge(kHere, {from(kHere, true), from({70, 16384, 17, 0}, true)}).foreign, 1);
    // The row of an older server, or of a template, which has a row of its own as well.
    EXPECT_EQ(identity_of(kHere, {from(kHere), from({70, 16384, 15, 0})}), Identity::Copy);
    EXPECT_EQ(identity_of(kHere, {from(kHere), from({71, 1, 17, 0}, false, true)}), Identity::Copy);
}

TEST(Identify, RecognizesACopyOfATemplate) {
    EXPECT_EQ(identity_of(kHere, {from({71, 16385, 17, 0})}), Identity::Copy);
    EXPECT_EQ(identity_of(kHere, {from({71, 1, 17, 0}, false, true)}), Identity::Inherited);
    // The template was upgraded with pg_upgrade without having been served.
    EXPECT_EQ(identity_of(kHere, {from({70, 1, 15, 0}, false, true)}), Identity::Inherited);
    EXPECT_EQ(identity_of(kHere, {from({70, 1, 17, 0}, false, true)}), Identity::Copy);
    EXPECT_EQ(identity_of(kHere, {from({71, 1, 17, 0}, true, true)}), Identity::Copy);
}

TEST(Identify, RecognizesAnUpgrade) {
    EXPECT_EQ(identity_of(kHere, {from({70, 16384, 15, 9})}), Identity::Inherited);
    EXPECT_EQ(identity_of(kHere, {from({70, 16384, 17, 0})}), Identity::Copy);
    EXPECT_EQ(identity_of(kHere, {from({70, 16384, 18, 0})}), Identity::Copy);
    EXPECT_EQ(identity_of(kHere, {from({70, 16385, 15, 0})}), Identity::Copy);
    // The upgraded database had been found to be a copy.
    EXPECT_EQ(identity_of(kHere, {from({70, 16384, 15, 0}, true)}), Identity::Copy);
}

TEST(Identify, RecognizesABaseBackup) {
    Place here = kHere;
    here.data_directory = 9;
    EXPECT_EQ(judge(here, {from(kHere)}).identity, Identity::Copy);
    EXPECT_EQ(judge(here, {from(kHere)}).foreign, 0);
    EXPECT_EQ(identity_of(here, {from(here)}), Identity::Own);
    EXPECT_EQ(identity_of(here, {from({70, 16384, 15, 0})}), Identity::Copy);
    // A standby of an adopted copy, and of a copy that has not been adopted.
    EXPECT_EQ(identity_of(kHere, {from(here)}), Identity::Own);
    EXPECT_EQ(identity_of(kHere, {from(kHere, true)}), Identity::Copy);
}

TEST(ChangeOfMark, AStandbyIsNotACopy) {
    for (const bool from_backup : {false, true}) EXPECT_EQ(change_of_mark({true, from_backup}), MarkChange::Clear);
}

TEST(ChangeOfMark, ARestoredBackupIsACopy) { EXPECT_EQ(change_of_mark({false, true}), MarkChange::Renew); }

TEST(ChangeOfMark, AnyOtherStartKeepsTheMark) { EXPECT_EQ(change_of_mark({false, false}), MarkChange::Keep); }

}  // namespace
}  // namespace jobq::core
