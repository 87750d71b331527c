// Tests what the totals count, when they count it, and how they are reported.
#include "core/series.h"
#include "metrics/families_policy.h"
#include "metrics/text_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

namespace {

using namespace jobq::core;

constexpr Micros kNow = 1000 * kSecond;

Life life(JobStatus status) {
    Life life = {};
    life.status = status;
    life.run_at = kNow - 3 * kSecond;
    life.max_attempts = 2;
    if (status == JobStatus::Processing) {
        life.attempts = 1;
        life.lease = 7;
        life.started_at = kNow - 2 * kSecond;
    }
    return life;
}

Event event(EventKind kind) {
    Event event = {kind, kNow};
    event.lease = 8;
    event.max_lost = 3;
    event.wants_retry = true;
    event.delay = kMinute;
    event.run_at = kNow + kMinute;
    event.max_attempts = 1;
    return event;
}

Happened happens(const Life &before, const Event &what) { return what_happened(before, after_event(before, what)); }

Tallies tallies(std::initializer_list<Tally> all) {
    Tallies bits = 0;
    for (const Tally tally : all) bits |= bit_of(tally);
    return bits;
}

TEST(WhatHappened, AClaimIsCountedWithItsWaitingTime) {
    const Happened claimed = happens(life(JobStatus::Pending), event(EventKind::Claimed));
    EXPECT_EQ(claimed.tallies, bit_of(Tally::Claimed));
    EXPECT_EQ(claimed.waited, 3 * kSecond);
    EXPECT_FALSE(claimed.ran);
}

TEST(WhatHappened, AnAttemptHasOneOutcome) {
    const Life running = life(JobStatus::Processing);
    struct {
        EventKind kind;
        Tallies tallies;
        bool ran;
    } const cases[] = {
        {EventKind::Completed, tallies({Tally::AttemptCompleted, Tally::Completed}), true},
        {EventKind::Failed, tallies({Tally::AttemptFailed}), true},
        {EventKind::Overran, tallies({Tally::AttemptFailed}), true},
        {EventKind::Released, tallies({Tally::AttemptReleased}), true},
        {EventKind::Waited, tallies({Tally::AttemptReleased}), true},
        {EventKind::Lost, tallies({Tally::AttemptLost}), false},
        {EventKind::CancelForced, tallies({Tally::AttemptWithdrawn, Tally::Cancelled}), true},
    };
    for (const auto &one : cases) {
        const Happened happened = happens(running, event(one.kind));
        EXPECT_EQ(happened.tallies, one.tallies) << static_cast<int>(one.kind);
        EXPECT_EQ(happened.ran, one.ran ? OptInt64(2 * kSecond) : OptInt64()) << static_cast<int>(one.kind);
        EXPECT_FALSE(happened.waited);
    }
}

TEST(WhatHappened, TheLastAttemptFailsTheJob) {
    Life running = life(JobStatus::Processing);
    running.attempts = 2;
    EXPECT_EQ(happens(running, event(EventKind::Failed)).tallies, tallies({Tally::AttemptFailed, Tally::Failed}));
    EXPECT_EQ(happens(running, event(EventKind::Lost)).tallies, tallies({Tally::AttemptLost, Tally::Failed}));
}

TEST(WhatHappened, AnAttemptOfACancelledJobIsWithdrawn) {
    Life running = life(JobStatus::Processing);
    running.cancel_requested_at = kNow - kSecond;
    for (const EventKind kind : {EventKind::Failed, EventKind::Released})
        EXPECT_EQ(happens(running, event(kind)).tallies, tallies({Tally::AttemptWithdrawn, Tally::Cancelled}));
    // It is unknown whether its worker knew about the request.
    EXPECT_EQ(happens(running, event(EventKind::Lost)).tallies, tallies({Tally::AttemptLost, Tally::Cancelled}));
}

TEST(WhatHappened, OnlyTheEndOfAWaitingJobIsCounted) {
    const Life waits = life(JobStatus::Pending);
    EXPECT_EQ(happens(waits, event(EventKind::Cancelled)).tallies, bit_of(Tally::Cancelled));
    EXPECT_EQ(happens(waits, event(EventKind::Dropped)).tallies, bit_of(Tally::Dropped));
    Life expires = waits;
    expires.expires_at = kNow;
    EXPECT_EQ(happens(expires, event(EventKind::Expired)).tallies, bit_of(Tally::Expired));
    EXPECT_EQ(happens(waits, event(EventKind::Rescheduled)).tallies, 0U);
    EXPECT_EQ(happens(life(JobStatus::Scheduled), event(EventKind::Due)).tallies, 0U);
}

TEST(WhatHappened, ARetryOfAFinishedJobIsCounted) {
    for (const JobStatus status : {JobStatus::Completed, JobStatus::Failed, JobStatus::Cancelled})
        for (const EventKind kind : {EventKind::Retried, EventKind::StartedOver})
            EXPECT_EQ(happens(life(status), event(kind)).tallies, bit_of(Tally::Retried));
    // A job that waits for its next attempt had not finished.
    EXPECT_EQ(happens(life(JobStatus::Scheduled), event(EventKind::Retried)).tallies, 0U);
}

TEST(WhatHappened, PlainSqlIsCountedWithoutTimes) {
    Life after = life(JobStatus::Pending);
    EXPECT_EQ(what_happened(life(JobStatus::Processing), after).tallies, bit_of(Tally::AttemptWithdrawn));
    EXPECT_FALSE(what_happened(life(JobStatus::Processing), after).ran);
    after.status = JobStatus::Completed;
    EXPECT_EQ(what_happened(life(JobStatus::Processing), after).tallies,
              tallies({Tally::AttemptCompleted, Tally::Completed}));
    EXPECT_EQ(what_happened(life(JobStatus::Pending), after).tallies, bit_of(Tally::Completed));
    EXPECT_EQ(what_happened(life(JobStatus::Pending), life(JobStatus::Processing)).tallies, bit_of(Tally::Claimed));
    EXPECT_FALSE(what_happened(life(JobStatus::Pending), life(JobStatus::Processing)).waited);
}

TEST(WhatHappened, TimesAreNeverNegativeOrEndless) {
    Life waits = life(JobStatus::Pending);
    waits.run_at = kNow + kSecond;
    EXPECT_EQ(happens(waits, event(EventKind::Claimed)).waited, 0);
    waits.run_at = INT64_MIN;
    EXPECT_EQ(happens(waits, event(EventKind::Claimed)).waited, 365 * kDay);
}

// Tests the two laws of metrics_policy.h with every event in every status, and with new and deleted jobs.
TEST(WhatHappened, TheLawsHoldForEveryEvent) {
    const auto counts = [](const Happened &happened, std::initializer_list<Tally> all) {
        int count = 0;
        for (const Tally tally : all) count += (happened.tallies & bit_of(tally)) != 0;
        return count;
    };
    const auto begun = [&](const Happened &happened) { return counts(happened, {Tally::Claimed}); };
    const auto ended = [&](const Happened &happened) {
        return counts(happened, {Tally::AttemptCompleted, Tally::AttemptFailed, Tally::AttemptLost,
                                 Tally::AttemptReleased, Tally::AttemptWithdrawn});
    };
    for (const StatusRow &row : kJobStatuses) {
        const Life before = life(row.status);
        const int ran = row.status == JobStatus::Processing;
        for (int kind = 0; kind < kEventKinds; kind++) {
            const Life after = after_event(before, event(static_cast<EventKind>(kind)));
            const Happened happened = what_happened(before, after);
            EXPECT_EQ(begun(happened) - ended(happened), (after.status == JobStatus::Processing) - ran);
            EXPECT_EQ(counts(happened, {Tally::Enqueued, Tally::Deleted}), 0);
        }
        EXPECT_EQ(begun(what_happened_to_new(before)), ran);
        EXPECT_EQ(counts(what_happened_to_new(before), {Tally::Enqueued}), 1);
        EXPECT_EQ(ended(what_happened_to_gone(row.status)), ran);
        EXPECT_EQ(counts(what_happened_to_gone(row.status), {Tally::Deleted}), 1);
    }
}

TEST(Buckets, AValueIsInTheFirstBucketWhoseBoundIsNotLess) {
    EXPECT_EQ(bucket_of(0), 0);
    EXPECT_EQ(bucket_of(kMillisecond), 0);
    EXPECT_EQ(bucket_of(kMillisecond + 1), 1);
    EXPECT_EQ(bucket_of(2 * kMillisecond), 1);
    EXPECT_EQ(bucket_of(kSecond), 10);
    EXPECT_EQ(bucket_of(bound_of(kBounds - 1)), kBounds - 1);
    EXPECT_EQ(bucket_of(bound_of(kBounds - 1) + 1), kBounds);
    EXPECT_EQ(bucket_of(INT64_MAX), kBounds);
    for (int i = 1; i < kBounds; i++) EXPECT_EQ(bound_of(i), 2 * bound_of(i - 1));
}

// The sums of 300,000 jobs, each with the longest waiting time that is counted.
TEST(Numbers, SumsSaturate) {
    const Happened claimed = {bit_of(Tally::Claimed), 365 * kDay, {}};
    SeriesNumbers sum = {}, batch = {};
    for (int i = 0; i < 5000; i++) note(&batch, claimed);
    for (int i = 0; i < 60; i++) add_numbers(&sum, batch);
    const std::int64_t highest = sum.values[SeriesNumbers::sum_of(Span::Wait)];
    EXPECT_GT(highest, std::int64_t{290'000} * 365 * kDay);
    EXPECT_EQ(sum.values[SeriesNumbers::of(Tally::Claimed)], 300'000);
    note(&sum, claimed);
    EXPECT_EQ(sum.values[SeriesNumbers::sum_of(Span::Wait)], highest);
    EXPECT_EQ(sum_of_numbers(highest, 1), highest);
}

TEST(Numbers, SumsAreExactForBillionsOfJobs) {
    for (const std::int64_t full : {INT64_C(1) << 31, INT64_C(1) << 32, INT64_C(1) << 53}) {
        SeriesNumbers sum = {};
        sum.values[SeriesNumbers::of(Tally::Claimed)] = full - 1;
        for (int i = 0; i < 2; i++) note(&sum, {bit_of(Tally::Claimed), 5 * kMillisecond, {}});
        EXPECT_EQ(sum.values[SeriesNumbers::of(Tally::Claimed)], full + 1);
    }
}

TEST(Numbers, NotedEventsAreAdded) {
    SeriesNumbers numbers = {}, sum = {};
    note(&numbers, {tallies({Tally::Claimed, Tally::Deleted}), 5 * kMillisecond, {}});
    note(&numbers, {bit_of(Tally::Claimed), 5 * kMillisecond, kSecond});
    add_numbers(&sum, numbers);
    add_numbers(&sum, numbers);
    EXPECT_EQ(sum.values[SeriesNumbers::of(Tally::Claimed)], 4);
    EXPECT_EQ(sum.values[SeriesNumbers::of(Tally::Deleted)], 2);
    EXPECT_EQ(sum.values[SeriesNumbers::of(Span::Wait, 3)], 4);
    EXPECT_EQ(sum.values[SeriesNumbers::sum_of(Span::Wait)], 4 * 5 * kMillisecond);
    EXPECT_EQ(sum.values[SeriesNumbers::of(Span::Run, 10)], 2);
    EXPECT_EQ(sum.values[SeriesNumbers::sum_of(Span::Run)], 2 * kSecond);
    EXPECT_EQ(std::count_if(std::begin(sum.values), std::end(sum.values), [](auto n) { return n != 0; }), 6);
}

// ---- the log

struct Log {
    SeriesLog log = {};

    void enqueue(const std::string &queue, const std::string &kind, int level) {
        if (SeriesChange *change = log.at(queue, kind, level))
            note(&change->numbers, {bit_of(Tally::Enqueued), {}, {}});
    }
    int enqueued(const std::string &queue, const std::string &kind) const {
        int count = 0;
        for (const SeriesChange &change : log.changes)
            if (change.name.is(queue, kind)) count += static_cast<int>(change.numbers.values[0]);
        return count;
    }
    int enqueued() const {
        int count = 0;
        for (const SeriesChange &change : log.changes) count += static_cast<int>(change.numbers.values[0]);
        return count;
    }
};

TEST(SeriesLogs, DistinguishSeries) {
    Log log;
    for (int i = 0; i < 3; i++) {
        log.enqueue("a", "bc", 1);
        log.enqueue("ab", "c", 1);
        log.enqueue("a", "", 1);
    }
    EXPECT_EQ(log.log.changes.count, 3);
    EXPECT_EQ(log.enqueued("a", "bc"), 3);
    EXPECT_EQ(log.enqueued("ab", "c"), 3);
    EXPECT_EQ(log.enqueued("a", ""), 3);
}

TEST(SeriesLogs, FollowSavepoints) {
    Log log;
    log.enqueue("a", "", 1);
    log.enqueue("a", "", 2);
    log.enqueue("b", "", 2);
    log.log.at("b", "", 2)->dropped = true;
    log.enqueue("a", "", 3);
    log.log.forget_level(3);
    EXPECT_EQ(log.enqueued(), 3);
    log.log.hand_to_parent(2);
    EXPECT_EQ(log.log.changes.count, 2);
    EXPECT_EQ(log.enqueued("a", ""), 2);
    EXPECT_EQ(log.enqueued("b", ""), 1);
    EXPECT_TRUE(log.log.at("b", "", 1)->dropped);
    EXPECT_FALSE(log.log.at("a", "", 1)->dropped);
    log.log.clear();
    EXPECT_EQ(log.log.changes.count, 0);
}

TEST(SeriesLogs, CountWithoutANameWhenFull) {
    Log log;
    constexpr int kMany = 3 * SeriesLog::kRoom;
    for (int i = 0; i < kMany; i++) log.enqueue("queue", std::to_string(i), 1);
    log.enqueue("queue", "0", 1);
    EXPECT_EQ(log.log.changes.count, SeriesLog::kNamed + 1);
    EXPECT_EQ(log.enqueued("queue", "0"), 2);
    EXPECT_EQ(log.enqueued("", ""), kMany - SeriesLog::kNamed);
    EXPECT_EQ(log.enqueued(), kMany + 1);
    // Also on a lower level, and then on a higher one again.
    for (int i = 0; i < kMany; i++) log.enqueue("queue", std::to_string(i), 2);
    EXPECT_EQ(log.enqueued(), 2 * kMany + 1);
    log.log.hand_to_parent(2);
    EXPECT_EQ(log.enqueued(), 2 * kMany + 1);
    EXPECT_EQ(log.log.changes.count, SeriesLog::kNamed + 1);
    EXPECT_FALSE(log.log.incomplete);
    // A queue that finds no entry is not dropped with all the others.
    EXPECT_EQ(log.log.at("another", "", 1)->name.queue_bytes, 0);
}

TEST(SeriesLogs, ReportTooManySavepoints) {
    Log log;
    for (int i = 0; i < SeriesLog::kNamed; i++) log.enqueue("queue", std::to_string(i), 1);
    for (int level = 1; level <= SeriesLog::kRoom - SeriesLog::kNamed; level++) log.enqueue("other", "x", level);
    EXPECT_FALSE(log.log.incomplete);
    EXPECT_EQ(log.log.at("other", "x", 1000), nullptr);
    EXPECT_TRUE(log.log.incomplete);
    log.log.clear();
    EXPECT_FALSE(log.log.incomplete);
}

TEST(SeriesLogs, CountTooLongNamesWithoutAName) {
    EXPECT_EQ(series_name(std::string(63, 'q'), std::string(255, 'k')).kind(), std::string(255, 'k'));
    EXPECT_EQ(series_name(std::string(64, 'q'), "").queue_bytes, 0);
    EXPECT_EQ(series_name("q", std::string(256, 'k')).queue_bytes, 0);
}

// ---- the report

std::string value(double number) {
    char text[kValueBytes];
    return {text, write_value(number, text)};
}

TEST(Text, ValuesAreWrittenForPrometheus) {
    EXPECT_EQ(value(0), "0");
    EXPECT_EQ(value(-0.0), "0");
    EXPECT_EQ(value(1000000), "1000000");
    EXPECT_EQ(value(-17), "-17");
    EXPECT_EQ(value(2147483649), "2147483649");
    EXPECT_EQ(value(4294967297), "4294967297");
    EXPECT_EQ(std::stod(value(9007199254740991)), 9007199254740991);
    EXPECT_EQ(value(0.001), "0.001");
    EXPECT_EQ(value(8388.608), "8388.608");
    EXPECT_EQ(value(1e300), "1e+300");
    EXPECT_EQ(value(std::numeric_limits<double>::infinity()), "+Inf");
    EXPECT_EQ(value(-std::numeric_limits<double>::infinity()), "-Inf");
    EXPECT_EQ(value(std::numeric_limits<double>::quiet_NaN()), "NaN");
    EXPECT_LE(value(-std::numeric_limits<double>::denorm_min()).size(), kValueBytes);
    EXPECT_LE(value(-std::numeric_limits<double>::max()).size(), kValueBytes);
    EXPECT_EQ(std::stod(value(0.1 + 0.2)), 0.1 + 0.2);
}

TEST(Text, SpecialCharactersAreEscaped) {
    EXPECT_EQ(escaped_in_label('"'), "\\\"");
    EXPECT_EQ(escaped_in_label('\\'), "\\\\");
    EXPECT_EQ(escaped_in_label('\n'), "\\n");
    EXPECT_EQ(escaped_in_label('a'), "");
    EXPECT_EQ(escaped_in_help('"'), "");
    EXPECT_EQ(escaped_in_help('\n'), "\\n");
}

std::string as_utf8(const std::string &name) {
    std::string written(kUtf8Growth * name.size(), '\0');
    written.resize(write_as_utf8(name, written.data()));
    return written;
}

TEST(Utf8, ValidSequencesAreUnchanged) {
    for (const std::string name :
         {"", "mails", "caf\xC3\xA9", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
          "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "a\tb\"c\\d\ne", "\\x", "\\xF", "\\x0g"})
        EXPECT_EQ(as_utf8(name), name);
}

TEST(Utf8, InvalidBytesAreWrittenInHexadecimal) {
    EXPECT_EQ(as_utf8("caf\xE9"), "caf\\xE9");
    EXPECT_EQ(as_utf8("caf\xE9s"), "caf\\xE9s");
    EXPECT_EQ(as_utf8("\x80"), "\\x80") << "a continuation alone";
    EXPECT_EQ(as_utf8("\xFE\xFF"), "\\xFE\\xFF") << "bytes that never occur";
    EXPECT_EQ(as_utf8("\xC0\x80\xC1\xBF"), "\\xC0\\x80\\xC1\\xBF") << "overlong forms of two bytes";
    EXPECT_EQ(as_utf8("\xE0\x9F\xBF"), "\\xE0\\x9F\\xBF") << "an overlong form of three bytes";
    EXPECT_EQ(as_utf8("\xF0\x8F\xBF\xBF"), "\\xF0\\x8F\\xBF\\xBF") << "an overlong form of four bytes";
    EXPECT_EQ(as_utf8("\xED\xA0\x80\xED\xBF\xBF"), "\\xED\\xA0\\x80\\xED\\xBF\\xBF") << "surrogates";
    EXPECT_EQ(as_utf8("\xF4\x90\x80\x80\xF5\x80\x80\x80"), "\\xF4\\x90\\x80\\x80\\xF5\\x80\\x80\\x80")
        << "above U+10FFFF";
    EXPECT_EQ(as_utf8("\xE2\x82"), "\\xE2\\x82") << "truncated at the end";
    EXPECT_EQ(as_utf8("\xF0\x9F\x98 \xC3"), "\\xF0\\x9F\\x98 \\xC3") << "truncated before another character";
    EXPECT_EQ(as_utf8("\xC3\xC3\xA9"), "\\xC3\xC3\xA9") << "a valid sequence after an invalid byte";
}

TEST(Utf8, DifferentNamesStayDifferent) {
    EXPECT_EQ(as_utf8("\\xE9"), "\\x5CxE9");
    EXPECT_EQ(as_utf8("\\xe9"), "\\x5Cxe9") << "also for a reader that ignores case";
    // All names of up to five of these bytes, which form valid and invalid sequences and resemble escapes.
    const std::string bytes = "\\x35C\xC3\xA9";
    std::set<std::string> written;
    std::size_t names = 0;
    for (std::size_t size = 0, count = 1; size <= 5; size++, count *= bytes.size()) {
        for (std::size_t number = 0; number < count; number++, names++) {
            std::string name;
            for (std::size_t i = 0, rest = number; i < size; i++, rest /= bytes.size())
                name += bytes[rest % bytes.size()];
            const std::string label = as_utf8(name);
            written.insert(label);
            std::size_t at = 0;
            for (std::size_t step; at < label.size() && (step = utf8_sequence(std::string_view(label).substr(at))) > 0;)
                at += step;
            EXPECT_EQ(at, label.size()) << "not valid: " << label;
        }
    }
    EXPECT_EQ(written.size(), names);
}

TEST(Families, FollowTheConventionsOfPrometheus) {
    std::set<std::string> names;
    for (const FamilyRow &family : kFamilies) {
        const std::string name = family.name, help = family.help;
        EXPECT_TRUE(names.insert(name).second) << name;
        EXPECT_EQ(name.rfind("jobq_", 0), 0U) << name;
        EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
        const bool total = name.size() > 6 && name.compare(name.size() - 6, 6, "_total") == 0;
        EXPECT_EQ(total, family.type == FamilyType::Counter) << name;
        EXPECT_FALSE(help.empty()) << name;
        EXPECT_EQ(help.back(), '.') << name;
    }
    for (const TallyLabel &told : kTallyLabels) EXPECT_EQ(row_of(told.family).type, FamilyType::Counter);
}

}  // namespace
