#include "core/choice.h"
#include "edges/dependency_policy.h"

#include <gtest/gtest.h>

#include <string>

namespace jobq::core {
namespace {

std::string dot_label(std::string_view text) {
    std::string to(text.size() * 2, '\0');
    to.resize(write_dot_label(text, to.data()));
    return to;
}

TEST(Dependency, FailurePoliciesAreParsed) {
    OnDependencyFailure choice = OnDependencyFailure::Cancel;
    EXPECT_TRUE(parse_choice(kOnDependencyFailureNames, "run", &choice));
    EXPECT_EQ(choice, OnDependencyFailure::Run);
    EXPECT_FALSE(parse_choice(kOnDependencyFailureNames, "Cancel", &choice));
    EXPECT_FALSE(parse_choice(kOnDependencyFailureNames, "", &choice));
    EXPECT_EQ(choice, OnDependencyFailure::Run);
    EXPECT_TRUE(parse_choice(kOnDependencyFailureNames, "cancel", &choice));
    EXPECT_EQ(choice, OnDependencyFailure::Cancel);
}

// A failed attempt that is retried does not end the job: the job becomes scheduled.
TEST(Dependency, OnlyFinishedJobsDecide) {
    for (const StatusRow &row : kJobStatuses)
        EXPECT_EQ(dependency_state(row.status) == DependencyState::Unfinished, !is_finished(row.status)) << row.label;
    EXPECT_EQ(dependency_state(JobStatus::Completed), DependencyState::Completed);
    EXPECT_EQ(dependency_state(JobStatus::Failed), DependencyState::Failed);
    EXPECT_EQ(dependency_state(JobStatus::Cancelled), DependencyState::Cancelled);
}

TEST(Dependency, ReasonsNameTheDependency) {
    EXPECT_STREQ(ended_how(DependencyState::Failed), "failed");
    EXPECT_STREQ(ended_how(DependencyState::Cancelled), "was cancelled");
    EXPECT_STREQ(ended_how(DependencyState::Deleted), "was deleted");
}

TEST(Dependency, LabelsAreEscaped) {
    EXPECT_EQ(dot_label(""), "");
    EXPECT_EQ(dot_label("send mail"), "send mail");
    EXPECT_EQ(dot_label("\"q\" \\ \\n"), "\\\"q\\\" \\\\ \\\\n");
    EXPECT_EQ(dot_label("a\nb\tc\x7f"), "a\\nb c ");
    EXPECT_EQ(dot_label("\xc3\xbc"), "\xc3\xbc");
    EXPECT_EQ(dot_label("\"\"\"\""), "\\\"\\\"\\\"\\\"");
}

// However long the chain is, the error names the job itself and the first job that ended.
TEST(Dependency, ErrorsNameTheFirstJobThatEnded) {
    EXPECT_EQ(first_cause(""), "");
    EXPECT_EQ(first_cause("no paper"), "no paper");
    EXPECT_EQ(first_cause("dependency 1 failed: no paper"), "dependency 1 failed: no paper");
    EXPECT_EQ(first_cause("dependency 2 was cancelled: dependency 1 failed: no paper"),
              "dependency 1 failed: no paper");
    EXPECT_EQ(first_cause("dependency 3 was cancelled: dependency 2 was cancelled: dependency 1 was deleted"),
              "dependency 1 was deleted");
    EXPECT_EQ(first_cause("dependency 2 was cancelled"), "dependency 2 was cancelled");
    EXPECT_EQ(first_cause("dependency 2 was cancelled: out of paper"), "dependency 2 was cancelled: out of paper");
    EXPECT_EQ(first_cause("dependency x was cancelled: dependency 1"), "dependency x was cancelled: dependency 1");
    EXPECT_EQ(first_cause("dependency "), "dependency ");
}

}  // namespace
}  // namespace jobq::core
