// core/unique: what becomes of an enqueue whose key another job has.
#include "keys/unique_policy.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

constexpr JobStatus kWaiting[] = {JobStatus::Scheduled, JobStatus::Blocked, JobStatus::Pending};
constexpr JobStatus kFinished[] = {JobStatus::Completed, JobStatus::Failed, JobStatus::Cancelled};

TEST(OnConflictNames, AreThoseOfTheDocumentation) {
    OnConflict choice = OnConflict::Error;
    EXPECT_TRUE(parse_on_conflict("ignore", &choice));
    EXPECT_EQ(choice, OnConflict::Ignore);
    EXPECT_TRUE(parse_on_conflict("replace", &choice));
    EXPECT_EQ(choice, OnConflict::Replace);
    EXPECT_TRUE(parse_on_conflict("error", &choice));
    EXPECT_EQ(choice, OnConflict::Error);
}

TEST(OnConflictNames, NothingElseIsOne) {
    OnConflict choice = OnConflict::Replace;
    for (const char *name : {"", "Ignore", "ignore ", "overwrite"}) EXPECT_FALSE(parse_on_conflict(name, &choice));
    EXPECT_EQ(choice, OnConflict::Replace);
}

TEST(ResolveConflict, IgnoreGivesTheJobThatIsThere) {
    for (JobStatus status : kWaiting) EXPECT_EQ(resolve_conflict(OnConflict::Ignore, status), Conflict::Existing);
    EXPECT_EQ(resolve_conflict(OnConflict::Ignore, JobStatus::Processing), Conflict::Existing);
}

TEST(ResolveConflict, ReplaceChangesWhatWaitsAndLeavesWhatRuns) {
    for (JobStatus status : kWaiting) EXPECT_EQ(resolve_conflict(OnConflict::Replace, status), Conflict::Change);
    EXPECT_EQ(resolve_conflict(OnConflict::Replace, JobStatus::Processing), Conflict::TakeKey);
}

TEST(ResolveConflict, ErrorRefuses) {
    for (JobStatus status : kWaiting) EXPECT_EQ(resolve_conflict(OnConflict::Error, status), Conflict::Refuse);
    EXPECT_EQ(resolve_conflict(OnConflict::Error, JobStatus::Processing), Conflict::Refuse);
}

TEST(ResolveConflict, AFinishedJobHasNoRightToItsKey) {
    for (JobStatus status : kFinished)
        for (OnConflict choice : {OnConflict::Ignore, OnConflict::Replace, OnConflict::Error})
            EXPECT_EQ(resolve_conflict(choice, status), Conflict::TakeKey);
}

TEST(KeptUntil, NeverOverflows) {
    EXPECT_EQ(kept_until(5 * kSecond, kHour), 5 * kSecond + kHour);
    EXPECT_EQ(kept_until(kLatest - kDay, kMaxUniqueFor), kLatest);
    EXPECT_EQ(kept_until(5, -kDay), 5);
}

TEST(KeyBefore, ComparesQueuesFirstAndBytes) {
    EXPECT_TRUE(key_before("a", "z", "b", "a"));
    EXPECT_FALSE(key_before("b", "a", "a", "z"));
    EXPECT_TRUE(key_before("a", "A", "a", "a"));
    EXPECT_TRUE(key_before("a", "k", "a", "k1"));
    EXPECT_TRUE(key_before("a", "z", "a", "\xc3\xa9"));
    EXPECT_FALSE(key_before("a", "k", "a", "k"));
}

}  // namespace
}  // namespace jobq::core
