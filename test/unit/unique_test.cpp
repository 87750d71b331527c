// core/unique: what happens to an enqueue if another job has its key.
#include "core/choice.h"
#include "core/unique_key.h"

#include <gtest/gtest.h>

namespace jobq::core {
namespace {

// The result for a key of a job that waits, or that has finished: the same for each of these statuses.
void expect_for_all(Phase phase, OnConflict choice, Conflict expected) {
    for (const StatusRow &row : kJobStatuses) {
        if (row.phase == phase) {
            EXPECT_EQ(resolve_conflict(choice, row.status), expected) << row.label;
        }
    }
}

TEST(OnConflictNames, AreTheDocumentedOnes) {
    OnConflict choice = OnConflict::Error;
    EXPECT_TRUE(parse_choice(kOnConflictNames, "ignore", &choice));
    EXPECT_EQ(choice, OnConflict::Ignore);
    EXPECT_TRUE(parse_choice(kOnConflictNames, "replace", &choice));
    EXPECT_EQ(choice, OnConflict::Replace);
    EXPECT_TRUE(parse_choice(kOnConflictNames, "error", &choice));
    EXPECT_EQ(choice, OnConflict::Error);
}

TEST(OnConflictNames, OtherNamesAreRejected) {
    OnConflict choice = OnConflict::Replace;
    for (const char *name : {"", "Ignore", "ignore ", "overwrite"})
        EXPECT_FALSE(parse_choice(kOnConflictNames, name, &choice));
    EXPECT_EQ(choice, OnConflict::Replace);
}

TEST(ResolveConflict, IgnoreReturnsTheExistingJob) {
    expect_for_all(Phase::Waiting, OnConflict::Ignore, Conflict::Existing);
    EXPECT_EQ(resolve_conflict(OnConflict::Ignore, JobStatus::Processing), Conflict::Existing);
}

TEST(ResolveConflict, ReplaceChangesWaitingJobsButNotRunningJobs) {
    expect_for_all(Phase::Waiting, OnConflict::Replace, Conflict::Change);
    EXPECT_EQ(resolve_conflict(OnConflict::Replace, JobStatus::Processing), Conflict::TakeKey);
}

TEST(ResolveConflict, ErrorRejects) {
    expect_for_all(Phase::Waiting, OnConflict::Error, Conflict::Refuse);
    EXPECT_EQ(resolve_conflict(OnConflict::Error, JobStatus::Processing), Conflict::Refuse);
}

TEST(ResolveConflict, AFinishedJobLosesItsKey) {
    for (OnConflict choice : {OnConflict::Ignore, OnConflict::Replace, OnConflict::Error})
        expect_for_all(Phase::Finished, choice, Conflict::TakeKey);
}

TEST(KeptUntil, NeverOverflows) {
    EXPECT_EQ(kept_until(5 * kSecond, kHour), 5 * kSecond + kHour);
    EXPECT_EQ(kept_until(kLatest - kDay, kMaxUniqueFor), kLatest);
    EXPECT_EQ(kept_until(5, -kDay), 5);
}

TEST(KeyBefore, ComparesQueuesFirstAndByBytes) {
    EXPECT_TRUE(key_before("a", "z", "b", "a"));
    EXPECT_FALSE(key_before("b", "a", "a", "z"));
    EXPECT_TRUE(key_before("a", "A", "a", "a"));
    EXPECT_TRUE(key_before("a", "k", "a", "k1"));
    EXPECT_TRUE(key_before("a", "z", "a", "\xc3\xa9"));
    EXPECT_FALSE(key_before("a", "k", "a", "k"));
}

}  // namespace
}  // namespace jobq::core
