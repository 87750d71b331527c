// Functions that read and check the arguments of SQL-callable functions. Every error message names the argument. Errors
// about an argument have SQLSTATE class 22, 42, or 54; errors about the transaction have class 25.
#pragma once

#include "compat/pg.h"
#include "core/choice.h"
#include "core/job.h"

#include <string_view>

namespace jobq {

// What an error message is about: an argument, or an element of an array argument.
struct ArgumentName {
    ArgumentName(const char *argument, int number = 0) : name(argument), element(number) {}
    const char *name;
    int element;  // number of the element, from 1; 0: the argument itself
};

// Raises 22004, because the argument must not be NULL.
[[noreturn]] void null_argument(const char *name);

std::string_view view(const text *value);
text *make_text(std::string_view value);

// Raises 25006 in a read-only transaction and on a standby, even if this particular call would not write anything.
void require_writable(FunctionCallInfo fcinfo);

// Returns whether an optional argument was given, which means that it is not NULL.
inline bool given(FunctionCallInfo fcinfo, int n) { return !PG_ARGISNULL(n); }
// Raises 22004 if the argument is NULL.
inline void require(FunctionCallInfo fcinfo, int n, const char *name) {
    if (PG_ARGISNULL(n)) null_argument(name);
}
inline int64 require_int64(FunctionCallInfo fcinfo, int n, const char *name) {
    require(fcinfo, n, name);
    return PG_GETARG_INT64(n);
}
text *require_text(FunctionCallInfo fcinfo, int n, const char *name);

// Raises 42602 if the queue name is empty, and 42622 if it is longer than 63 bytes.
void check_queue_name(std::string_view queue, ArgumentName name);
// Raises 42622 if the value is longer than `limit` bytes, and 42602 if it is empty and `allow_empty` is false.
void check_name(std::string_view value, ArgumentName name, size_t limit, bool allow_empty);
// Returns how many bytes of a value an error message shows. The number is limited, because the value can be long.
int shown_bytes(std::string_view given);
// Raises 22023 because `given` is not one of the choices.
[[noreturn]] void refuse_choice(const char *name, std::string_view given, const std::string_view *choices, int count);
// Returns the enum value with this name. Raises 22023 if there is none.
template <typename Choice, int count>
Choice require_choice(const char *name, std::string_view word, const std::string_view (&names)[count]) {
    Choice choice = {};
    if (!core::parse_choice(names, word, &choice)) refuse_choice(name, word, names, count);
    return choice;
}
[[noreturn]] void refuse_key(const char *name, std::string_view key, const char *hint);
// Raises 22003 if the priority is outside the range of smallint.
int16 check_priority(int32 priority, const char *name);
// Raises 22023 if the value is below 1.
int32 check_positive(int32 value, const char *name);
// Raises 22023 if the value is infinite.
TimestampTz check_finite(TimestampTz value, const char *name);
// Raises 22023 if the value is infinite or outside the years 1 to 6000, because jobq cannot calculate with such times.
TimestampTz check_moment(TimestampTz value, const char *name);

enum class Zero { Allowed, Refused };
// Returns the interval in microseconds. Raises 22023 if the interval is negative or infinite, or if it is zero and zero
// is not allowed.
core::Micros check_span(const Interval *value, const char *name, Zero zero);
// Returns a palloc'd interval that contains the given number of microseconds.
Interval *make_interval(core::Micros micros);
// Returns the length of an interval in microseconds. A month counts as 30 days.
core::Micros span_of(const Interval *value);

// Returns a text, truncated to `limit` bytes at a character boundary.
text *truncated_text(Datum value, size_t limit);
// Returns an error text, truncated to core::kMaxErrorBytes at a character boundary. Returns nullptr for NULL.
text *truncated_error(Datum value, bool is_null);

// The elements of a one-dimensional array. No element is NULL, unless NULL elements are allowed.
struct Elements {
    Datum *values;
    bool *nulls;
    int count;
};
enum class NullElements { Refused, Allowed };
// These functions return the elements of an array. They raise 2202E if the array has more than one dimension, 22004 if
// it contains a NULL element that is not allowed, and 54000 if it contains more than `limit` elements.
Elements elements_of(ArrayType *array, Oid element_type, const char *name, int limit, NullElements nulls);
Elements require_elements(FunctionCallInfo fcinfo, int n, Oid element_type, const char *name, int limit);
// Raises 2202E unless both arrays have the same length.
void check_same_length(int a, const char *name_a, int b, const char *name_b);

// The elements of an array of type text[], as views into the array.
struct Names {
    std::string_view *items;
    int count;
};
Names names_of(ArrayType *array, const char *name, size_t limit_bytes, int limit);

Datum array_of(Datum *values, int count, Oid element_type);
Datum array_of(Datum *values, bool *nulls, int count, Oid element_type);

// The values of a column, which are passed to unnest() as an array argument.
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
