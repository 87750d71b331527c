// Checks the attributes of jobs that are passed as function arguments or in a JSON object. Each error message contains
// the name of the argument. All checks run before anything is changed.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "core/queue_settings.h"

#include <string_view>

namespace jobq {

// Checks the interval with check_span(), and raises 22023 if the interval is outside the bounds of the setting. Accepts
// 0 if the value 0 removes the setting.
core::Micros check_span_within(const core::QueueSetting &bounds, const Interval *value);
// These functions call check_span_within() with the bounds of a queue setting that a job or a claim can override.
core::Micros check_heartbeat_timeout(const Interval *value);
core::Micros check_max_runtime(const Interval *value);
core::Micros check_expires_in(const Interval *value);
// Raises 42602 if the key is empty, and 42622 if it is longer than 1024 bytes.
void check_unique_key(std::string_view key, ArgumentName name);
// Raises the same errors as check_unique_key() for an invalid group key.
void check_group_key(std::string_view key, ArgumentName name);
// Calls check_span() for the argument unique_for. Raises 22023 if the interval is longer than 36500 days or the job has
// no unique key.
void check_unique_for(const Interval *value, bool has_key);
// Raises 42602 if the key is empty, 42622 if it is longer than 255 bytes, and 22023 if it is '*', which stands for
// every key.
void check_concurrency_key(std::string_view key, ArgumentName name);

}  // namespace jobq
