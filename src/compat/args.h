// Arguments of SQL-callable functions: checked access that names the argument in every error. What is wrong with
// an argument is an error of class 22, 42 or 54, what is wrong with the transaction one of class 25; they change
// nothing.
#pragma once

#include "base/choice.h"
#include "compat/pg.h"
#include "job/job_policy.h"
#include "queues/queue_settings_policy.h"

#include <string_view>

namespace jobq {

// What an error is about: an argument, or an element of one that is an array.
struct ArgumentName {
    ArgumentName(const char *argument, int number = 0) : name(argument), element(number) {}
    const char *name;
    int element;  // from 1; 0: the argument itself
};

// 22004 "argument must not be NULL".
[[noreturn]] void null_argument(const char *name);

std::string_view view(const text *value);
text *make_text(std::string_view value);

// 25006 in a read-only transaction and on a standby, also where the call would find nothing to write.
void require_writable(FunctionCallInfo fcinfo);

// An argument that may be absent.
inline bool given(FunctionCallInfo fcinfo, int n) { return !PG_ARGISNULL(n); }
// 22004 when it is absent.
inline void require(FunctionCallInfo fcinfo, int n, const char *name) {
    if (PG_ARGISNULL(n)) null_argument(name);
}
inline int64 require_int64(FunctionCallInfo fcinfo, int n, const char *name) {
    require(fcinfo, n, name);
    return PG_GETARG_INT64(n);
}
text *require_text(FunctionCallInfo fcinfo, int n, const char *name);

// 42602 when empty, 42622 when longer than 63 bytes. For queue names.
void check_queue_name(std::string_view queue, ArgumentName name);
// 42622 when longer than `limit` bytes; 42602 when empty and `allow_empty` is not set.
void check_name(std::string_view value, ArgumentName name, size_t limit, bool allow_empty);
// How much of what somebody has given an error shows, in bytes: it may be long.
int shown_bytes(std::string_view given);
// 22023: what is given is none of the choices, or of the keys of an object.
[[noreturn]] void refuse_choice(const char *name, std::string_view given, const std::string_view *choices, int count);
// What the word names; 22023 when it names nothing.
template <typename Choice, int count>
Choice require_choice(const char *name, std::string_view word, const std::string_view (&names)[count]) {
    Choice choice = {};
    if (!core::parse_choice(names, word, &choice)) refuse_choice(name, word, names, count);
    return choice;
}
[[noreturn]] void refuse_key(const char *name, std::string_view key, const char *hint);
// 22003 outside smallint.
int16 check_priority(int32 priority, const char *name);
// 22023 below 1.
int32 check_positive(int32 value, const char *name);
// 22023 when infinite.
TimestampTz check_finite(TimestampTz value, const char *name);
// The same, and when it is none of the years 1 to 6000, with whose moments can be reckoned.
TimestampTz check_moment(TimestampTz value, const char *name);

enum class Zero { Allowed, Refused };
// The span in microseconds; 22023 when negative, infinite, or zero where that is refused.
core::Micros check_span(const Interval *value, const char *name, Zero zero);
// check_span, and 22023 outside the bounds of the setting; 0 may be what takes it away.
core::Micros check_span_within(const core::QueueSetting &bounds, const Interval *value);
// check_span_within for those that a job and a claim may say as well.
core::Micros check_heartbeat_timeout(const Interval *value);
core::Micros check_max_runtime(const Interval *value);
// 42602 when empty, 42622 when longer than 1024 bytes.
void check_unique_key(std::string_view key, ArgumentName name);
// The same for a group key.
void check_group_key(std::string_view key, ArgumentName name);
// check_span for unique_for; 22023 above 36500 days, and without a key.
void check_unique_for(const Interval *value, bool has_key);
// 42602 when empty, 42622 when longer than 255 bytes, 22023 when it is the '*' that stands for each key.
void check_concurrency_key(std::string_view key, ArgumentName name);
// An interval of that many microseconds, palloc'd.
Interval *make_interval(core::Micros micros);
// How many an interval has, a month of 30 days.
core::Micros span_of(const Interval *value);

// Error texts: cut to core::kMaxErrorBytes at a character boundary. nullptr stays nullptr.
text *truncated_error(Datum value, bool is_null);

// A one-dimensional array without NULL elements, unless `nulls` is asked for.
struct Elements {
    Datum *values;
    bool *nulls;
    int count;
};
enum class NullElements { Refused, Allowed };
// 2202E for more than one dimension, 22004 for a NULL element where refused, 54000 for more than `limit` elements.
Elements elements_of(ArrayType *array, Oid element_type, const char *name, int limit, NullElements nulls);
Elements require_elements(FunctionCallInfo fcinfo, int n, Oid element_type, const char *name, int limit);
// 2202E unless both have the same length.
void check_same_length(int a, const char *name_a, int b, const char *name_b);

// A text[] as views into it.
struct Names {
    std::string_view *items;
    int count;
};
Names names_of(ArrayType *array, const char *name, size_t limit_bytes, int limit);

Datum array_of(Datum *values, int count, Oid element_type);
Datum array_of(Datum *values, bool *nulls, int count, Oid element_type);

// A column of values for unnest().
struct ArrayColumn {
    Datum *values;
    bool *nulls;
    int count;

    explicit ArrayColumn(int room)
        : values(static_cast<Datum *>(palloc_extended(sizeof(Datum) * Max(room, 1), MCXT_ALLOC_HUGE))),
          nulls(static_cast<bool *>(palloc_extended(Max(room, 1), MCXT_ALLOC_HUGE))),
          count(0) {}
    void add(Datum value) { add_if(true, value); }
    void add_if(bool present, Datum value) {
        values[count] = value;
        nulls[count++] = !present;
    }
    Datum array(Oid type) const { return array_of(values, nulls, count, type); }
};

}  // namespace jobq
