// Tests the table of queue settings.
#include "core/queue_settings.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace jobq::core {
namespace {

TEST(QueueSettings, EachHasAUniqueNameAndText) {
    std::set<std::string> names, texts;
    for (const QueueSetting &setting : kQueueSettingTable) {
        names.insert(setting.name);
        texts.insert(setting.text);
        EXPECT_FALSE(std::string(setting.text).empty()) << setting.name;
    }
    EXPECT_EQ(names.size(), kQueueSettings);
    EXPECT_EQ(texts.size(), kQueueSettings);
    EXPECT_STREQ(setting_of(SettingNumber::dead_letter_queue).name, "dead_letter_queue");
}

// Each default is within the bounds of its setting, or is 0, which means none.
template <typename T>
void expect_within(SettingNumber number, T otherwise) {
    const QueueSetting &setting = setting_of(number);
    EXPECT_LE(setting.lowest, setting.highest) << setting.name;
    EXPECT_LE(otherwise, setting.highest) << setting.name;
    EXPECT_TRUE(setting.removable ? otherwise == 0 : otherwise >= setting.lowest) << setting.name;
}

TEST(QueueSettings, DefaultsAreWithinTheBounds) {
#define JOBQ_BOUNDED(name, ...) expect_within(SettingNumber::name, kDefaultSettings.name);
#define JOBQ_OTHER(name, ...)
    JOBQ_QUEUE_SETTINGS(JOBQ_BOUNDED, JOBQ_BOUNDED, JOBQ_OTHER, JOBQ_OTHER, JOBQ_OTHER, JOBQ_OTHER, JOBQ_OTHER)
#undef JOBQ_BOUNDED
#undef JOBQ_OTHER
    EXPECT_TRUE(kDefaultSettings.dead_letter_queue.empty());
    EXPECT_EQ(kDefaultSettings.backoff.count, 0);
    EXPECT_FALSE(kDefaultSettings.round_robin);
}

TEST(QueueSettings, HaveALevel) {
    const auto level_of = [](SettingNumber number) { return setting_of(number).level; };
    EXPECT_TRUE(is_at(level_of(SettingNumber::max_attempts), SettingLevel::Queue));
    EXPECT_TRUE(is_at(level_of(SettingNumber::max_attempts), SettingLevel::Kind));
    EXPECT_TRUE(is_at(level_of(SettingNumber::max_depth), SettingLevel::Queue));
    EXPECT_FALSE(is_at(level_of(SettingNumber::max_depth), SettingLevel::Kind));
    EXPECT_FALSE(is_at(SettingLevel::Kind, SettingLevel::Queue));
}

TEST(QueueSettings, TheWordsOfAChoiceMatchItsEnum) {
    const QueueSetting &on_full = setting_of(SettingNumber::on_full);
    EXPECT_EQ(choice_of(on_full.words, "reject"), static_cast<int>(FullPolicy::Reject));
    EXPECT_EQ(choice_of(on_full.words, "drop_oldest"), static_cast<int>(FullPolicy::DropOldest));
    const QueueSetting &on_max_runtime = setting_of(SettingNumber::on_max_runtime);
    EXPECT_EQ(choice_of(on_max_runtime.words, "fail"), static_cast<int>(OnMaxRuntime::Fail));
    EXPECT_EQ(choice_of(on_max_runtime.words, "cancel"), static_cast<int>(OnMaxRuntime::Cancel));
}

TEST(ChoiceOf, MatchesWordsExactly) {
    for (const char *none : {"", " ", "Reject", "drop", "reject ", "drop-oldest", "reject drop_oldest", "oldest"})
        EXPECT_EQ(choice_of("reject drop_oldest", none), -1) << none;
    EXPECT_EQ(choice_of("", ""), -1);
    EXPECT_EQ(choice_of("a b c", "c"), 2);
}

TEST(Bounded, KeepsADurationWithinItsBounds) {
    EXPECT_EQ(bounded(kMaxRuntime, kMinute), kMinute);
    EXPECT_EQ(bounded(kMaxRuntime, 10 * kMillisecond), 10 * kMillisecond);
    EXPECT_EQ(bounded(kMaxRuntime, 10 * kMillisecond - 1), 10 * kMillisecond);
    EXPECT_EQ(bounded(kMaxRuntime, -kLatest), 10 * kMillisecond);
    EXPECT_EQ(bounded(kMaxRuntime, INT64_MAX), 365 * kDay);
}

}  // namespace
}  // namespace jobq::core
