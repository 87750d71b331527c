// The table of all settings of queues and of kinds. The following is generated from this table: struct QueueSettings,
// the bounds of the settings, and the code with which jobq_create_queue, jobq_alter_queue, and jobq_alter_kind check,
// store, and read settings. scripts/install_script.awk also generates the columns of jobq.queue_settings and
// jobq.kind_settings with their CHECK constraints and comments, the arguments of these functions, and the columns of
// the views jobq.queues and jobq.kinds.
#pragma once

#include "core/backpressure.h"
#include "core/group.h"
#include "core/job.h"
#include "core/max_runtime.h"

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace jobq::core {

// Values that stand for the upper bound of a setting that has no maximum.
constexpr std::int32_t kAnyNumber = INT32_MAX;
constexpr Micros kAnySpan = INT64_MAX;

// - NUMBER(name, level, default, lowest, highest, text): an integer; its bounds are literals or kAnyNumber
// - SPAN(name, level, default, lowest, highest, text): an interval; its bounds are 0, kDay, 14 * kDay, or kAnySpan
// - SPANS(name, level, text): a list of at most kMaxSpans intervals; empty by default
// - CHOICE(name, level, enum, default, words, text): a text, which is one of the words; the enum has the same order
// - QUEUE(name, level, text): the name of another queue; not set by default
// - SWITCH(name, level, text): a boolean; false by default
// - NAMES(name, level, text): a list of at most kMaxLimitsOfJob names of limits; empty by default
//
// The level says what can have the setting: Queue, Kind (of a queue), or Both. If both have it, the value of the kind
// applies. NULL in jobq.kind_settings means that the value of the queue applies.
//
// If the default is 0 and the lowest value is greater than 0, the default means "not set", as does NULL in
// jobq.queue_settings. The argument 0 removes the setting of a queue, and an empty text or list removes the name of a
// queue or a list. For a kind, these values are stored, and mean that the setting of the queue does not apply. The
// settings have the same order as the arguments of the functions. An upgrade may add settings at the end.
// clang-format off
#define JOBQ_QUEUE_SETTINGS(NUMBER, SPAN, SPANS, CHOICE, QUEUE, SWITCH, NAMES) \
    NUMBER(max_attempts, Both, 20, 1, kAnyNumber, "maximum number of attempts of a job that is enqueued without max_attempts") \
    SPAN(backoff_base, Both, kSecond, 0, kAnySpan, "delay after the first failed attempt, doubled each time") \
    SPAN(backoff_max, Both, kHour, 0, kAnySpan, "maximum delay between attempts") \
    SPAN(heartbeat_timeout, Both, 60 * kSecond, 10 * kMillisecond, 365 * kDay, "time without a heartbeat after which a worker is presumed dead, unless the job or the claim has its own") \
    NUMBER(max_lost, Both, 3, 1, kAnyNumber, "a job fails permanently after it has lost its worker this many times") \
    SPAN(keep_completed, Both, kDay, 0, kAnySpan, "how long completed jobs are kept; 0 deletes them on completion") \
    SPAN(keep_failed, Both, 14 * kDay, 0, kAnySpan, "how long failed and canceled jobs are kept") \
    NUMBER(max_depth, Queue, 0, 1, kAnyNumber, "approximate maximum number of waiting jobs") \
    CHOICE(on_full, Queue, FullPolicy, Reject, "reject drop_oldest", "what happens if an enqueue exceeds max_depth: reject (raise an error) or drop_oldest (cancel the oldest pending jobs)") \
    QUEUE(dead_letter_queue, Both, "queue to which permanently failed jobs are moved") \
    SPAN(max_runtime, Both, 0, 10 * kMillisecond, 365 * kDay, "maximum time of one attempt, unless the job or the claim has its own") \
    CHOICE(on_max_runtime, Both, OnMaxRuntime, Fail, "fail cancel", "what happens to a job that runs longer than max_runtime: fail (the attempt fails) or cancel (the job is canceled)") \
    SPAN(priority_ageing, Queue, 0, kMillisecond, 365 * kDay, "each time a job has waited this long, it counts as one priority step higher") \
    SWITCH(round_robin, Queue, "true: the concurrency_keys of the queue take turns; setting it rewrites the queue's jobs") \
    SPAN(expires_in, Both, 0, 10 * kMillisecond, 36500 * kDay, "time after run_at at which a job that no worker has claimed is canceled, unless the job has its own") \
    SPANS(backoff, Both, "delays after the first, second, and later failed attempts, instead of backoff_base and backoff_max; the last delay repeats") \
    CHOICE(group_on_failure, Both, GroupOnFailure, Continue, "continue halt", "what happens to a group after one of its jobs has failed permanently: continue (the next job runs) or halt (the group waits for an operator)") \
    NAMES(limits, Both, "named limits toward which jobs count that are enqueued without limits of their own")
// clang-format on

// These macros convert rows of all kinds to the same form. JOBQ_EACH_SETTING expands to one JOBQ_SETTING(...) per row;
// define JOBQ_SETTING before you use JOBQ_EACH_SETTING.
#define JOBQ_NUMBER_SETTING(name, level, otherwise, lowest, highest, text) \
    JOBQ_SETTING(name, level, Number, std::int32_t, otherwise, "", lowest, highest, otherwise < lowest, text)
#define JOBQ_SPAN_SETTING(name, level, otherwise, lowest, highest, text) \
    JOBQ_SETTING(name, level, Span, Micros, otherwise, "", lowest, highest, otherwise < lowest, text)
#define JOBQ_SPANS_SETTING(name, level, text) JOBQ_SETTING(name, level, Spans, SpanList, {}, "", 0, 0, true, text)
#define JOBQ_CHOICE_SETTING(name, level, type, otherwise, words, text) \
    JOBQ_SETTING(name, level, Choice, type, type::otherwise, words, 0, 0, false, text)
#define JOBQ_QUEUE_SETTING(name, level, text) \
    JOBQ_SETTING(name, level, Queue, std::string_view, {}, "", 0, 0, true, text)
#define JOBQ_SWITCH_SETTING(name, level, text) JOBQ_SETTING(name, level, Switch, bool, false, "", 0, 0, false, text)
#define JOBQ_NAMES_SETTING(name, level, text) JOBQ_SETTING(name, level, Names, NameList, {}, "", 0, 0, true, text)
#define JOBQ_EACH_SETTING                                                                                \
    JOBQ_QUEUE_SETTINGS(JOBQ_NUMBER_SETTING, JOBQ_SPAN_SETTING, JOBQ_SPANS_SETTING, JOBQ_CHOICE_SETTING, \
                        JOBQ_QUEUE_SETTING, JOBQ_SWITCH_SETTING, JOBQ_NAMES_SETTING)

// A list of names. Does not own its memory.
struct NameList {
    const std::string_view *items = nullptr;
    int count = 0;
};

// The settings that are in effect for a queue, or for a kind of a queue, including defaults.
struct QueueSettings {
#define JOBQ_SETTING(name, level, form, type, otherwise, ...) type name = otherwise;
    JOBQ_EACH_SETTING
#undef JOBQ_SETTING
};
static_assert(std::is_trivially_copyable_v<QueueSettings>, "may live where a longjmp skips destructors");
constexpr QueueSettings kDefaultSettings = {};

enum class SettingType : std::uint8_t { Number, Span, Spans, Choice, Queue, Switch, Names };
enum class SettingLevel : std::uint8_t { Queue = 1, Kind = 2, Both = 3 };

struct QueueSetting {
    const char *name;
    const char *words;  // words of a CHOICE setting, separated by spaces
    const char *text;
    std::int64_t lowest;  // bounds of a number, or of a span in microseconds
    std::int64_t highest;
    SettingType type;
    SettingLevel level;
    bool removable;  // the value 0, an empty name, or an empty list removes the setting
};

// The number of each setting, in the order of the table.
enum class SettingNumber : std::uint8_t {
#define JOBQ_SETTING(name, ...) name,
    JOBQ_EACH_SETTING
#undef JOBQ_SETTING
        Count
};
constexpr int kQueueSettings = static_cast<int>(SettingNumber::Count);

constexpr QueueSetting kQueueSettingTable[kQueueSettings] = {
#define JOBQ_SETTING(name, level, form, type, otherwise, words, lowest, highest, removable, text) \
    {#name, words, text, lowest, highest, SettingType::form, SettingLevel::level, removable},
    JOBQ_EACH_SETTING
#undef JOBQ_SETTING
};

// Returns whether a setting with level `has` is a setting of queues (SettingLevel::Queue) or of kinds
// (SettingLevel::Kind).
constexpr bool is_at(SettingLevel has, SettingLevel level) {
    return (static_cast<unsigned>(has) & static_cast<unsigned>(level)) != 0;
}

constexpr const QueueSetting &setting_of(SettingNumber number) { return kQueueSettingTable[static_cast<int>(number)]; }

// Maximum number of intervals in a setting of type SPANS.
constexpr int kMaxSpans = 100;

// Settings that a job or a claim may override.
constexpr QueueSetting kHeartbeatTimeout = setting_of(SettingNumber::heartbeat_timeout);
constexpr QueueSetting kMaxRuntime = setting_of(SettingNumber::max_runtime);
constexpr QueueSetting kExpiresIn = setting_of(SettingNumber::expires_in);

constexpr int kMostChoices = 8;
// Splits the words and returns their number.
int split_choices(std::string_view words, std::string_view (&choices)[kMostChoices]) noexcept;
// Returns the index of `word` in `words`, or -1 if `words` does not contain it.
int choice_of(std::string_view words, std::string_view word) noexcept;

// Returns `span`, clamped to the bounds of the setting. An UPDATE with plain SQL might have stored a value outside
// these bounds.
Micros bounded(const QueueSetting &setting, Micros span) noexcept;

}  // namespace jobq::core
