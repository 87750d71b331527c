// Tests what each event does to a job in each status.
#include "places.h"

#include <gtest/gtest.h>

#include <vector>

namespace jobq::core {
namespace {

// For each event, the result for a job in each place. A dot: the event does not apply.
struct Line {
    EventKind kind;
    const char *becomes;
};
constexpr Line kTable[] = {
    // scheduled, blocked, in line, awaiting, pending, running, completed, failed, cancelled, halting
    {EventKind::Claimed, "....R....."},
    {EventKind::RescueIndexed, ".....R...."},
    {EventKind::SlotsGiven, ".....R...."},
    {EventKind::InCompany, ".....R...."},
    {EventKind::Heartbeat, ".....R...."},
    {EventKind::Completed, ".....C...."},
    {EventKind::Failed, ".....S...."},
    {EventKind::Released, ".....P...."},
    {EventKind::StepSaved, ".....R...."},
    {EventKind::Waited, ".....B...."},
    {EventKind::Lost, ".....P...."},
    {EventKind::Overran, ".....S...."},
    {EventKind::CancelForced, ".....X...."},
    {EventKind::Cancelled, "XXXXXR...X"},
    {EventKind::Dropped, ".X..X....."},
    {EventKind::Expired, "XXXXX....."},
    {EventKind::Due, "P..P......"},
    {EventKind::Blocked, "B...B....."},
    {EventKind::LeftLine, "..B......."},
    {EventKind::DependenciesDone, ".P........"},
    {EventKind::BecameGroupHead, "..P......."},
    {EventKind::WaitOver, "...P......"},
    {EventKind::Rescheduled, "S...S....."},
    {EventKind::Retried, "S.....SSSS"},
    {EventKind::StartedOver, "S.....SSSS"},
    {EventKind::Replaced, "SBB.S....."},
    {EventKind::KeyTaken, "SBBBPRCFXF"},
    {EventKind::Moved, "SBBBPRCFXF"},
    {EventKind::PassedOver, ".........F"},
};

char letter(JobStatus status) {
    for (const auto &row : kPlaceRows)
        if (row.status == status) return row.letter;
    return '?';
}

TEST(Life, EveryStatusIsInTheTable) {
    for (const StatusRow &row : kJobStatuses) EXPECT_NE(letter(row.status), '?') << row.label;
}

TEST(Life, EveryEventInEveryStatusHasTheExpectedResult) {
    ASSERT_EQ(sizeof(kTable) / sizeof(kTable[0]), static_cast<size_t>(kEventKinds));
    for (const Line &line : kTable) {
        ASSERT_EQ(std::string(line.becomes).size(), static_cast<size_t>(kPlaces)) << line.becomes;
        for (int place = 0; place < kPlaces; place++) {
            const Life before = job_in(static_cast<Place>(place));
            ASSERT_EQ(broken_law(before), "") << place;
            const Life after = after_event(before, event_of(line.kind));
            const char expected = line.becomes[place];
            const std::string what =
                "event " + std::to_string(static_cast<int>(line.kind)) + " in place " + std::to_string(place);
            EXPECT_EQ(applies(line.kind, before), expected != '.') << what;
            if (expected == '.')
                EXPECT_EQ(differing(before, after), 0U) << what;
            else
                EXPECT_EQ(letter(after.status), expected) << what;
            EXPECT_EQ(broken_law(after), "") << what;
        }
    }
}

TEST(Life, AClaimCountsAnAttemptAndGivesALease) {
    Event claim = event_of(EventKind::Claimed);
    claim.max_runtime = kMinute;
    claim.queue_slot = 9;
    claim.slot_seq = 4;
    const Life after = after_event(job_in(kPending), claim);
    EXPECT_EQ(after.attempts, 1);
    EXPECT_EQ(after.lease, kLease + 1);
    EXPECT_EQ(after.started_at, kNow);
    EXPECT_EQ(after.last_heartbeat, kNow);
    EXPECT_EQ(after.must_end_at, kNow + kMinute);
    EXPECT_FALSE(after.lease_timeout.has_value());
    EXPECT_EQ(after.queue_slot, 9);
    EXPECT_EQ(after.slot_seq, 4);
    EXPECT_TRUE(after.holds_key);
    claim.timeout = kHour;
    EXPECT_EQ(after_event(job_in(kPending), claim).lease_timeout, kHour);
}

TEST(Life, ACompletionRemembersTheLeaseOfTheReport) {
    Event completion = event_of(EventKind::Completed);
    completion.lease = kLease + 7;
    const Life after = after_event(job_in(kRunning), completion);
    EXPECT_EQ(after.completed_lease, kLease + 7);
    EXPECT_EQ(after.finished_at, kNow);
}

TEST(Life, AFailedJobIsRetriedWhileAttemptsAreLeft) {
    Event failure = event_of(EventKind::Failed);
    const Life again = after_event(job_in(kRunning), failure);
    EXPECT_EQ(again.run_at, kNow + kMinute);
    EXPECT_TRUE(again.holds_key);
    failure.delay = 0;
    EXPECT_EQ(after_event(job_in(kRunning), failure).status, JobStatus::Pending);
    failure.wants_retry = false;
    EXPECT_EQ(after_event(job_in(kRunning), failure).status, JobStatus::Failed);
    Life last = job_in(kRunning);
    last.attempts = 3;
    EXPECT_EQ(after_event(last, event_of(EventKind::Failed)).status, JobStatus::Failed);
}

TEST(Life, AJobWithACancelRequestIsCancelledHoweverItsAttemptEnds) {
    Life asked = job_in(kRunning);
    asked.cancel_requested_at = kNow - 1;
    for (const EventKind kind : {EventKind::Failed, EventKind::Released, EventKind::Waited, EventKind::Lost,
                                 EventKind::Overran, EventKind::CancelForced}) {
        const Life after = after_event(asked, event_of(kind));
        EXPECT_EQ(after.status, JobStatus::Cancelled);
        EXPECT_EQ(after.cancel_requested_at, kNow - 1);
    }
    EXPECT_EQ(after_event(asked, event_of(EventKind::Completed)).status, JobStatus::Completed);
    EXPECT_EQ(after_event(asked, event_of(EventKind::Cancelled)).cancel_requested_at, kNow - 1);
}

TEST(Life, AReleasedJobLosesNoAttemptAndKeepsItsPlace) {
    Life after = after_event(job_in(kRunning), event_of(EventKind::Released));
    EXPECT_EQ(after.attempts, 0);
    EXPECT_EQ(after.run_at, job_in(kRunning).run_at);
    Event snooze = event_of(EventKind::Released);
    snooze.delay = kHour;
    after = after_event(job_in(kRunning), snooze);
    EXPECT_EQ(after.status, JobStatus::Scheduled);
    EXPECT_EQ(after.run_at, kNow + kHour);
}

TEST(Life, ASavedStepIsCountedAndResetsLostAttempts) {
    Life running = job_in(kRunning);
    running.lost_attempts = 2;
    running.company_lease = 9;
    Event saved = event_of(EventKind::StepSaved);
    saved.last_step = 3;
    const Life after = after_event(running, saved);
    EXPECT_EQ(after.steps, 3);
    EXPECT_EQ(after.lost_attempts, 0);
    EXPECT_FALSE(after.company_lease.has_value());
    EXPECT_EQ(after.last_heartbeat, kNow);
    EXPECT_EQ(after.attempts, 1);
    EXPECT_EQ(after.lease, kLease);
    EXPECT_EQ(after.must_end_at, running.must_end_at);
}

TEST(Life, AWaitKeepsOnlyThePlaceInTheGroupAndTheKey) {
    Life running = job_in(kRunning);
    running.group = running.group_active = kGroup;
    Event wait = event_of(EventKind::Waited);
    wait.last_step = 1;
    Life after = after_event(running, wait);
    EXPECT_EQ(after.status, JobStatus::Blocked);
    EXPECT_TRUE(awaits(after));
    EXPECT_EQ(after.must_end_at, kForever);
    EXPECT_FALSE(after.due);
    EXPECT_EQ(after.attempts, 0);
    EXPECT_EQ(after.run_at, running.run_at);
    EXPECT_EQ(after.group_active, kGroup);
    EXPECT_TRUE(after.holds_key);
    EXPECT_FALSE(after.queue_slot.has_value());
    // A job that has begun comes before one that has not.
    EXPECT_EQ(after_event(after, event_of(EventKind::WaitOver)).run_at, running.run_at);
    EXPECT_EQ(broken_law(after_event(after, event_of(EventKind::WaitOver))), "");
    wait.deadline = kNow + kDay;
    after = after_event(running, wait);
    EXPECT_EQ(after.run_at, kNow + kDay);
    EXPECT_EQ(after.must_end_at, kNow + kDay);
    EXPECT_TRUE(after.due);
    EXPECT_EQ(after_event(after, event_of(EventKind::WaitOver)).run_at, kNow);
    EXPECT_EQ(after_event(after, event_of(EventKind::Due)).status, JobStatus::Pending);
    EXPECT_FALSE(after_event(after, event_of(EventKind::Due)).must_end_at.has_value());
    wait.sleeps = true;
    after = after_event(running, wait);
    EXPECT_EQ(after.status, JobStatus::Scheduled);
    EXPECT_EQ(after.run_at, kNow + 2 * kHour);
    EXPECT_FALSE(after.must_end_at.has_value());
}

TEST(Life, AJobWithStepsIsNotDroppedOrReplaced) {
    Life pending = job_in(kPending);
    pending.steps = 2;
    pending.started_at = kNow - kMinute;
    for (const EventKind kind : {EventKind::Dropped, EventKind::Replaced, EventKind::Blocked})
        EXPECT_FALSE(applies(kind, pending));
    EXPECT_FALSE(after_event(pending, event_of(EventKind::KeyTaken)).has_key);
    // A job that is blocked with plain SQL waits for its dependencies and is unblocked with them.
    Life blocked = job_in(kBlocked);
    blocked.steps = 2;
    EXPECT_EQ(after_event(blocked, event_of(EventKind::Dropped)).status, JobStatus::Cancelled);
}

TEST(Life, ACopyWithStepsThatHasNotStartedIsDroppedLikeANewJob) {
    Life copy = job_in(kPending);
    copy.steps = 2;
    EXPECT_EQ(after_event(copy, event_of(EventKind::Dropped)).status, JobStatus::Cancelled);
    EXPECT_EQ(after_event(copy, event_of(EventKind::Blocked)).status, JobStatus::Blocked);
    EXPECT_FALSE(applies(EventKind::Replaced, copy));
}

TEST(Life, ARetryKeepsTheStepsUnlessTheJobHasCompleted) {
    for (const Place place : {kScheduled, kFailed, kCancelled}) {
        Life job = job_in(place);
        job.steps = 4;
        EXPECT_EQ(after_event(job, event_of(EventKind::Retried)).steps, 4);
        EXPECT_EQ(after_event(job, event_of(EventKind::StartedOver)).steps, 4);
    }
    Life done = job_in(kDone);
    done.steps = 4;
    Event retry = event_of(EventKind::Retried);
    EXPECT_FALSE(after_event(done, retry).steps.has_value());
    retry.last_step = 2;
    EXPECT_EQ(after_event(done, retry).steps, 2);
    retry.last_step = 0;
    EXPECT_FALSE(after_event(done, retry).steps.has_value());
}

TEST(Life, OnlyTheFirstClaimEndsTheExpiry) {
    for (const EventKind kind : {EventKind::Due, EventKind::Rescheduled, EventKind::Blocked, EventKind::KeyTaken,
                                 EventKind::DependenciesDone, EventKind::BecameGroupHead, EventKind::Moved}) {
        for (int place = 0; place < kPlaces; place++) {
            const Life before = job_in(static_cast<Place>(place));
            EXPECT_EQ(after_event(before, event_of(kind)).expires_at, before.expires_at) << place;
        }
    }
    const Life claimed = after_event(job_in(kPending), event_of(EventKind::Claimed));
    EXPECT_FALSE(claimed.expires_at.has_value());
    for (const EventKind kind : {EventKind::Released, EventKind::Failed, EventKind::Lost, EventKind::Waited}) {
        const Life again = after_event(claimed, event_of(kind));
        EXPECT_TRUE(is_waiting(again.status));
        EXPECT_FALSE(again.expires_at.has_value());
        EXPECT_FALSE(applies(EventKind::Expired, again));
    }
}

TEST(Life, ARetryClearsTheExpiryAndAReplacementSetsIt) {
    EXPECT_FALSE(after_event(job_in(kScheduled), event_of(EventKind::Retried)).expires_at.has_value());
    EXPECT_FALSE(after_event(job_in(kScheduled), event_of(EventKind::StartedOver)).expires_at.has_value());
    const Life expired = after_event(job_in(kPending), event_of(EventKind::Expired));
    EXPECT_FALSE(after_event(expired, event_of(EventKind::Retried)).expires_at.has_value());
    Event replaced = event_of(EventKind::Replaced);
    EXPECT_FALSE(after_event(job_in(kPending), replaced).expires_at.has_value());
    replaced.expires_at = kNow + kDay;
    EXPECT_EQ(after_event(job_in(kPending), replaced).expires_at, kNow + kDay);
}

TEST(Life, AJobWithoutExpiryDoesNotExpire) {
    Life pending = job_in(kPending);
    pending.expires_at.reset();
    EXPECT_FALSE(applies(EventKind::Expired, pending));
}

TEST(Life, ALossTogetherWithOthersIsNotCounted) {
    Event loss = event_of(EventKind::Lost);
    EXPECT_EQ(after_event(job_in(kRunning), loss).lost_attempts, 1);
    loss.in_company = true;
    const Life after = after_event(job_in(kRunning), loss);
    EXPECT_EQ(after.lost_attempts, 0);
    EXPECT_EQ(after.company_lease, kLease);
    loss.in_company = false;
    Life suspect = job_in(kRunning);
    suspect.lost_attempts = 2;
    EXPECT_EQ(after_event(suspect, loss).status, JobStatus::Failed);
}

TEST(Life, ARetryGivesOneMoreAttemptAndStartingOverGivesAll) {
    Life failed = job_in(kFailed);
    failed.attempts = 3;
    failed.started_at = kNow - kHour;
    failed.has_error = true;
    failed.lost_attempts = 2;
    failed.company_lease = 1;
    const Life again = after_event(failed, event_of(EventKind::Retried));
    EXPECT_EQ(again.max_attempts, 4);
    EXPECT_EQ(again.attempts, 3);
    EXPECT_EQ(again.lost_attempts, 0);
    EXPECT_FALSE(again.company_lease.has_value());
    EXPECT_TRUE(again.has_error);
    EXPECT_TRUE(again.holds_key);
    const Life over = after_event(failed, event_of(EventKind::StartedOver));
    EXPECT_EQ(over.max_attempts, 3);
    EXPECT_EQ(over.attempts, 0);
    failed.started_at.reset();
    EXPECT_FALSE(after_event(failed, event_of(EventKind::Retried)).has_error);
}

TEST(Life, ARetryRunsAtAGivenTimeWithTheGivenAttempts) {
    Life failed = job_in(kFailed);
    failed.attempts = 3;
    Event retry = event_of(EventKind::Retried);
    retry.max_attempts = 9;
    const Life later = after_event(failed, retry);
    EXPECT_EQ(later.status, JobStatus::Scheduled);
    EXPECT_EQ(later.run_at, retry.run_at);
    EXPECT_EQ(later.max_attempts, 9);
    EXPECT_EQ(later.attempts, 3);
    retry.run_at = kNow - kHour;
    retry.max_attempts = 2;
    const Life now = after_event(failed, retry);
    EXPECT_EQ(now.status, JobStatus::Pending);
    EXPECT_EQ(now.max_attempts, 4);
}

TEST(Life, ARetriedJobWaitsForItsDependenciesAndThenInItsGroup) {
    Life cancelled = job_in(kCancelled);
    cancelled.group = kGroup;
    Event retry = event_of(EventKind::Retried);
    retry.run_at = kNow;
    Life after = after_event(cancelled, retry);
    EXPECT_EQ(after.status, JobStatus::Blocked);
    EXPECT_EQ(after.group_waiting, kGroup);
    retry.waits = true;
    after = after_event(cancelled, retry);
    EXPECT_EQ(after.status, JobStatus::Blocked);
    EXPECT_FALSE(after.group_waiting.has_value());
    after = after_event(after, event_of(EventKind::DependenciesDone));
    EXPECT_EQ(after.group_waiting, kGroup);
    after = after_event(after, event_of(EventKind::BecameGroupHead));
    EXPECT_EQ(after.status, JobStatus::Pending);
    EXPECT_EQ(after.group_active, kGroup);
    // The job stays the head until it has finished.
    after = after_event(after_event(after, event_of(EventKind::Claimed)), event_of(EventKind::Failed));
    EXPECT_EQ(after.group_active, kGroup);
    EXPECT_EQ(after_event(after, event_of(EventKind::Retried)).status, JobStatus::Scheduled);
    EXPECT_FALSE(after_event(after, event_of(EventKind::Cancelled)).group_active.has_value());
}

TEST(Life, APermanentFailureHaltsTheGroupOnlyIfTheEventSaysSo) {
    Life head = job_in(kRunning);
    head.group = head.group_active = kGroup;
    head.attempts = 3;
    for (const EventKind kind : {EventKind::Failed, EventKind::Lost, EventKind::Overran}) {
        Event failure = event_of(kind);
        EXPECT_FALSE(after_event(head, failure).group_active.has_value());
        failure.halts_group = true;
        EXPECT_TRUE(halts_group(after_event(head, failure)));
        // A cancellation does not halt the group.
        Life asked = head;
        asked.cancel_requested_at = kNow - 1;
        const Life cancelled = after_event(asked, failure);
        EXPECT_EQ(cancelled.status, JobStatus::Cancelled);
        EXPECT_FALSE(cancelled.group_active.has_value());
    }
}

TEST(Life, AHaltedGroupContinuesAfterItsHead) {
    const Life halting = job_in(kHalting);
    const Life retried = after_event(halting, event_of(EventKind::Retried));
    EXPECT_EQ(retried.group_active, kGroup);
    EXPECT_FALSE(retried.group_waiting.has_value());
    // The retention period begins when the halt ends.
    for (const EventKind kind : {EventKind::Cancelled, EventKind::PassedOver}) {
        const Life after = after_event(halting, event_of(kind));
        EXPECT_FALSE(after.group_active.has_value());
        EXPECT_EQ(after.finished_at, kNow);
    }
}

TEST(Life, AHeadThatWaitsForItsDependenciesEntersTheLineAfterThem) {
    Life head = job_in(kScheduled);
    head.group = head.group_active = kGroup;
    Event retry = event_of(EventKind::Retried);
    EXPECT_EQ(after_event(head, retry).group_active, kGroup);
    retry.waits = true;
    for (const Event &event : {retry, event_of(EventKind::Blocked)}) {
        const Life after = after_event(head, event);
        EXPECT_EQ(after.status, JobStatus::Blocked);
        EXPECT_EQ(broken_law(after), "");
        EXPECT_EQ(after_event(after, event_of(EventKind::DependenciesDone)).group_waiting, kGroup);
    }
}

TEST(Life, ARunningJobLosesItsKeyPermanently) {
    const Life lost = after_event(job_in(kRunning), event_of(EventKind::KeyTaken));
    EXPECT_FALSE(lost.has_key);
    EXPECT_FALSE(lost.holds_key);
    const Life again = after_event(after_event(lost, event_of(EventKind::Completed)), event_of(EventKind::Retried));
    EXPECT_FALSE(again.holds_key);
}

TEST(Life, AClaimDoesNotGiveTheJobAKey) {
    Life pending = job_in(kPending);
    pending.holds_key = false;
    EXPECT_FALSE(after_event(pending, event_of(EventKind::Claimed)).holds_key);
}

TEST(Life, MovedJobsWaitInTheGroupOfTheirNewQueue) {
    EXPECT_EQ(after_event(job_in(kInLine), event_of(EventKind::Moved)).group_waiting, kGroup + 1);
    EXPECT_FALSE(after_event(job_in(kFailed), event_of(EventKind::Moved)).group_waiting.has_value());
}

TEST(Life, TheSlotSequenceNumberDoesNotDecrease) {
    Life running = job_in(kRunning);
    running.slot_seq = 10;
    Event given = event_of(EventKind::SlotsGiven);
    given.key_slot = 4;
    given.kind_slot = 5;
    given.limit_slot2 = 6;
    given.slot_seq = 8;
    const Life after = after_event(running, given);
    EXPECT_EQ(after.slot_seq, 10);
    EXPECT_EQ(after.queue_slot, 3);
    EXPECT_EQ(after.key_slot, 4);
    EXPECT_EQ(after.kind_slot, 5);
    EXPECT_EQ(after.limit_slot2, 6);
    EXPECT_FALSE(after.limit_slot1.has_value());
}

TEST(Life, ANewJobWaitsForItsTimeItsDependenciesAndItsGroup) {
    Life life = {};
    life.has_key = true;
    EXPECT_EQ(enqueued(life, kNow, false, kNow).status, JobStatus::Pending);
    EXPECT_EQ(enqueued(life, kNow + 1, false, kNow).status, JobStatus::Scheduled);
    EXPECT_EQ(enqueued(life, kNow, true, kNow).status, JobStatus::Blocked);
    EXPECT_TRUE(enqueued(life, kNow, false, kNow).holds_key);
    life.group = kGroup;
    EXPECT_EQ(enqueued(life, kNow, false, kNow).group_waiting, kGroup);
    EXPECT_FALSE(enqueued(life, kNow, true, kNow).group_waiting.has_value());
    for (const bool waits : {false, true}) EXPECT_EQ(broken_law(enqueued(life, kNow, waits, kNow)), "");
}

TEST(Life, TheDeadlineIsTheEarlierClock) {
    Life life = job_in(kRunning);
    EXPECT_EQ(deadline_of(life), *life.last_heartbeat + kDefaultSettings.heartbeat_timeout);
    life.must_end_at = kNow;
    EXPECT_EQ(deadline_of(life), kNow);
    life.last_heartbeat.reset();
    EXPECT_EQ(deadline_of(life), INT64_MIN);
}

TEST(Life, DifferingReturnsTheChangedColumns) {
    const Life before = job_in(kRunning);
    EXPECT_EQ(differing(before, before), 0U);
    EXPECT_EQ(differing(before, after_event(before, event_of(EventKind::Heartbeat))), 1U << kLifeLastHeartbeat);
    const std::uint32_t ended = differing(before, after_event(before, event_of(EventKind::CancelForced)));
    EXPECT_EQ(ended, 1U << kLifeStatus | 1U << kLifeFinishedAt | 1U << kLifeLease | 1U << kLifeRescueIndexed |
                         1U << kLifeMustEndAt | 1U << kLifeQueueSlot | 1U << kLifeHoldsKey);
}

}  // namespace
}  // namespace jobq::core
