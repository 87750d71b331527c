// The settings of queues: one table, from which everything follows that handles all of them alike. From here: the
// struct below, their bounds, what jobq_create_queue and jobq_alter_queue check, store and read back, and, through
// scripts/install_script.awk, the columns of jobq.queue_settings with their CHECK constraints and comments, the
// arguments of these functions and the columns of the view jobq.queues. Pure.
#pragma once

#include "enqueue/backpressure_policy.h"
#include "job/job_policy.h"
#include "job/max_runtime_policy.h"

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace jobq::core {

// No highest value.
constexpr std::int32_t kAnyNumber = INT32_MAX;
constexpr Micros kAnySpan = INT64_MAX;

// NUMBER(name, default, lowest, highest, text): an integer; its bounds are literals, or kAnyNumber
// SPAN(name, default, lowest, highest, text):   an interval; 0, kDay, 14 * kDay and the like, or kAnySpan
// CHOICE(name, enum, default, words, text):     a text, one of the words; the enum names them in the same order
// QUEUE(name, text):                            the name of another queue; by default none
// SWITCH(name, text):                           a boolean; by default false
//
// A default of 0 below the lowest value stands for "none"; so does NULL in the table. Then 0, like the empty name of a
// queue, takes the setting away. Their order is that of the arguments. An upgrade may add settings at the end.
// clang-format off
#define JOBQ_QUEUE_SETTINGS(NUMBER, SPAN, CHOICE, QUEUE, SWITCH) \
    NUMBER(max_attempts, 20, 1, kAnyNumber, "for jobs enqueued without one") \
    SPAN(backoff_base, kSecond, 0, kAnySpan, "delay after the first failed attempt, doubled each time") \
    SPAN(backoff_max, kHour, 0, kAnySpan, "longest delay between attempts") \
    SPAN(heartbeat_timeout, 60 * kSecond, 10 * kMillisecond, 365 * kDay, "for jobs and claims that name none: time without a heartbeat after which a worker is presumed dead") \
    NUMBER(max_lost, 3, 1, kAnyNumber, "a job fails for good when it has lost its worker this often") \
    SPAN(keep_completed, kDay, 0, kAnySpan, "how long completed jobs stay, 0: deleted on completion") \
    SPAN(keep_failed, 14 * kDay, 0, kAnySpan, "how long failed and cancelled jobs stay") \
    NUMBER(max_depth, 0, 1, kAnyNumber, "about so many jobs may wait") \
    CHOICE(on_full, FullPolicy, Reject, "reject drop_oldest", "what happens to an enqueue beyond max_depth: reject, or drop_oldest, which cancels pending jobs for it") \
    QUEUE(dead_letter_queue, "where jobs go that failed for good") \
    SPAN(max_runtime, 0, 10 * kMillisecond, 365 * kDay, "for claims of jobs that name none: longest time one attempt may take") \
    CHOICE(on_max_runtime, OnMaxRuntime, Fail, "fail cancel", "what happens to a job that runs longer: fail, the attempt has failed, or cancel, the job is cancelled") \
    SPAN(priority_ageing, 0, kMillisecond, 365 * kDay, "each such time of waiting counts like one step of priority") \
    SWITCH(round_robin, "true: the concurrency_keys of the queue take turns; setting it rewrites the queue's jobs")
// clang-format on

// The settings in force, with the defaults.
struct QueueSettings {
#define JOBQ_NUMBER(name, otherwise, lowest, highest, text) std::int32_t name = otherwise;
#define JOBQ_SPAN(name, otherwise, lowest, highest, text) Micros name = otherwise;
#define JOBQ_CHOICE(name, type, otherwise, words, text) type name = type::otherwise;
#define JOBQ_QUEUE(name, text) std::string_view name = {};
#define JOBQ_SWITCH(name, text) bool name = false;
    JOBQ_QUEUE_SETTINGS(JOBQ_NUMBER, JOBQ_SPAN, JOBQ_CHOICE, JOBQ_QUEUE, JOBQ_SWITCH)
#undef JOBQ_NUMBER
#undef JOBQ_SPAN
#undef JOBQ_CHOICE
#undef JOBQ_QUEUE
#undef JOBQ_SWITCH
};
static_assert(std::is_trivially_copyable_v<QueueSettings>, "may live where a longjmp skips destructors");
constexpr QueueSettings kDefaultSettings = {};

enum class SettingType : std::uint8_t { Number, Span, Choice, Queue, Switch };

struct QueueSetting {
    const char *name;
    const char *words;  // of a choice
    const char *text;
    std::int64_t lowest;  // of a number, or a span in microseconds
    std::int64_t highest;
    SettingType type;
    bool removable;  // 0, or the empty name, takes it away
};

// One number for each, in the order of the table.
enum class SettingNumber : std::uint8_t {
#define JOBQ_NUMBERED(name, ...) name,
    JOBQ_QUEUE_SETTINGS(JOBQ_NUMBERED, JOBQ_NUMBERED, JOBQ_NUMBERED, JOBQ_NUMBERED, JOBQ_NUMBERED)
#undef JOBQ_NUMBERED
        Count
};
constexpr int kQueueSettings = static_cast<int>(SettingNumber::Count);

constexpr QueueSetting kQueueSettingTable[kQueueSettings] = {
#define JOBQ_NUMBER(name, otherwise, lowest, highest, text) \
    {#name, "", text, lowest, highest, SettingType::Number, otherwise < lowest},
#define JOBQ_SPAN(name, otherwise, lowest, highest, text) \
    {#name, "", text, lowest, highest, SettingType::Span, otherwise < lowest},
#define JOBQ_CHOICE(name, type, otherwise, words, text) {#name, words, text, 0, 0, SettingType::Choice, false},
#define JOBQ_QUEUE(name, text) {#name, "", text, 0, 0, SettingType::Queue, true},
#define JOBQ_SWITCH(name, text) {#name, "", text, 0, 0, SettingType::Switch, false},
    JOBQ_QUEUE_SETTINGS(JOBQ_NUMBER, JOBQ_SPAN, JOBQ_CHOICE, JOBQ_QUEUE, JOBQ_SWITCH)
#undef JOBQ_NUMBER
#undef JOBQ_SPAN
#undef JOBQ_CHOICE
#undef JOBQ_QUEUE
#undef JOBQ_SWITCH
};

constexpr const QueueSetting &setting_of(SettingNumber number) { return kQueueSettingTable[static_cast<int>(number)]; }

// A job and a claim may say them, too.
constexpr QueueSetting kHeartbeatTimeout = setting_of(SettingNumber::heartbeat_timeout);
constexpr QueueSetting kMaxRuntime = setting_of(SettingNumber::max_runtime);

// Which of the words this is, counted from 0; -1: none of them.
int choice_of(std::string_view words, std::string_view word) noexcept;

// `span` within the bounds of the setting, whatever an UPDATE by hand has left there.
Micros bounded(const QueueSetting &setting, Micros span) noexcept;

}  // namespace jobq::core
