// See args.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/transaction.h"
#include "core/clock.h"
#include "core/interval.h"

extern "C" {
#include "lib/stringinfo.h"
#include "tcop/utility.h"
}

namespace jobq {

void null_argument(const char *name) {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("argument \"%s\" must not be NULL", name),
                    errhint("Pass a value, or omit the argument if it has a default.")));
    pg_unreachable();
}

void require_writable(FunctionCallInfo fcinfo) {
    if (XactReadOnly) PreventCommandIfReadOnly(get_func_name(fcinfo->flinfo->fn_oid));
    refuse_parallel_operation();
}

std::string_view view(const text *value) { return {VARDATA_ANY(value), static_cast<size_t>(VARSIZE_ANY_EXHDR(value))}; }

text *make_text(std::string_view value) {
    return cstring_to_text_with_len(value.data(), static_cast<int>(value.size()));
}

text *require_text(FunctionCallInfo fcinfo, int n, const char *name) {
    require(fcinfo, n, name);
    return PG_GETARG_TEXT_PP(n);
}

void check_name(std::string_view value, ArgumentName name, size_t limit, bool allow_empty) {
    if (value.empty() && !allow_empty)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_NAME),
                 name.element == 0 ? errmsg("argument \"%s\" must not be empty", name.name)
                                   : errmsg("element %d of argument \"%s\" must not be empty", name.element, name.name),
                 errhint("Pass a name of 1 to %zu bytes.", limit)));
    if (value.size() > limit)
        ereport(ERROR, (errcode(ERRCODE_NAME_TOO_LONG),
                        name.element == 0 ? errmsg("argument \"%s\" is too long: %zu bytes", name.name, value.size())
                                          : errmsg("element %d of argument \"%s\" is too long: %zu bytes", name.element,
                                                   name.name, value.size()),
                        errhint("At most %zu bytes are allowed.", limit)));
}

void check_queue_name(std::string_view queue, ArgumentName name) {
    check_name(queue, name, core::kMaxQueueBytes, false);
}

int shown_bytes(std::string_view given) { return pg_mbcliplen(given.data(), static_cast<int>(given.size()), 100); }

void refuse_choice(const char *name, std::string_view given, const std::string_view *choices, int count) {
    StringInfoData words;
    initStringInfo(&words);
    for (int i = 0; i < count; i++)
        appendStringInfo(&words, "%s'%.*s'", i == 0 ? "" : ", ", static_cast<int>(choices[i].size()),
                         choices[i].data());
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("invalid value for argument \"%s\": \"%.*s\"", name, shown_bytes(given), given.data()),
                    errhint("Available values: %s.", words.data)));
    pg_unreachable();
}

void refuse_key(const char *name, std::string_view key, const char *hint) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"%s\" has an unknown key \"%.*s\"", name, shown_bytes(key), key.data()),
                    errhint("%s", hint)));
    pg_unreachable();
}

int16 check_priority(int32 priority, const char *name) {
    if (priority < PG_INT16_MIN || priority > PG_INT16_MAX)
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                        errmsg("argument \"%s\" must be between -32768 and 32767, not %d", name, priority),
                        errhint("Jobs with a lower number are claimed first.")));
    return static_cast<int16>(priority);
}

int32 check_positive(int32 value, const char *name) {
    if (value < 1)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"%s\" must be at least 1, not %d", name, value),
                        errhint("Omit the argument to use the default.")));
    return value;
}

TimestampTz check_finite(TimestampTz value, const char *name) {
    if (TIMESTAMP_NOT_FINITE(value))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" must be finite", name),
                        errhint("Use a time other than 'infinity' or '-infinity'.")));
    return value;
}

TimestampTz check_moment(TimestampTz value, const char *name) {
    if (check_finite(value, name) == core::bounded_moment(value)) return value;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" is out of range", name),
                    errhint("Use a time between the years 1 and 6000.")));
    pg_unreachable();
}

core::Micros check_span(const Interval *value, const char *name, Zero zero) {
    if (INTERVAL_NOT_FINITE(value))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" must be finite", name),
                        errhint("Use an interval such as '30 seconds'.")));
    const core::Micros span = span_of(value);
    if (span < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" must not be negative", name),
                        errhint("Use an interval such as '30 seconds'.")));
    if (span == 0 && zero == Zero::Refused)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" must not be zero", name),
                        errhint("Use an interval such as '30 seconds'.")));
    return span;
}

Interval *make_interval(core::Micros micros) {
    auto *made = static_cast<Interval *>(palloc0(sizeof(Interval)));
    made->time = micros;
    return made;
}

core::Micros span_of(const Interval *value) { return core::span_micros(value->month, value->day, value->time); }

text *truncated_text(Datum value, size_t limit) {
    // Reads only the start of the value, because an error text can be 1 GB long. The start includes a few bytes after
    // the limit, because a character that begins within the limit can end after it.
    if (toast_raw_datum_size(value) <= limit + VARHDRSZ) return DatumGetTextPP(value);
    const text *head = DatumGetTextPSlice(value, 0, static_cast<int32>(limit + MAX_MULTIBYTE_CHAR_LEN));
    const int length =
        pg_mbcliplen(VARDATA_ANY(head), static_cast<int>(VARSIZE_ANY_EXHDR(head)), static_cast<int>(limit));
    return cstring_to_text_with_len(VARDATA_ANY(head), length);
}

text *truncated_error(Datum value, bool is_null) {
    return is_null ? nullptr : truncated_text(value, core::kMaxErrorBytes);
}

Elements elements_of(ArrayType *array, Oid element_type, const char *name, int limit, NullElements nulls) {
    if (ARR_NDIM(array) > 1)
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                        errmsg("argument \"%s\" must be a one-dimensional array", name),
                        errhint("Flatten the array into one dimension.")));
    const int count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
    if (count > limit)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("argument \"%s\" has too many elements: %d", name, count),
                        errhint("At most %d elements are allowed in one call.", limit)));
    if (nulls == NullElements::Refused && array_contains_nulls(array))
        ereport(ERROR,
                (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                 errmsg("argument \"%s\" must not contain NULL elements", name), errhint("Remove the NULL elements.")));
    Elements found;
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(element_type, &length, &by_value, &align);
    deconstruct_array(array, element_type, length, by_value, align, &found.values, &found.nulls, &found.count);
    return found;
}

Elements require_elements(FunctionCallInfo fcinfo, int n, Oid element_type, const char *name, int limit) {
    require(fcinfo, n, name);
    return elements_of(PG_GETARG_ARRAYTYPE_P(n), element_type, name, limit, NullElements::Refused);
}

void check_same_length(int a, const char *name_a, int b, const char *name_b) {
    if (a != b)
        ereport(ERROR,
                (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                 errmsg("arguments \"%s\" and \"%s\" must have the same length, not %d and %d", name_a, name_b, a, b),
                 errhint("Elements at the same position belong together.")));
}

Names names_of(ArrayType *array, const char *name, size_t limit_bytes, int limit) {
    const Elements found = elements_of(array, TEXTOID, name, limit, NullElements::Refused);
    Names names = {static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(found.count, 1))),
                   found.count};
    for (int i = 0; i < found.count; i++) {
        names.items[i] = view(DatumGetTextPP(found.values[i]));
        check_name(names.items[i], {name, i + 1}, limit_bytes, true);
    }
    return names;
}

Datum array_of(Datum *values, int count, Oid element_type) { return array_of(values, nullptr, count, element_type); }

Datum array_of(Datum *values, bool *nulls, int count, Oid element_type) {
    int16 length;
    bool by_value;
    char align;
    get_typlenbyvalalign(element_type, &length, &by_value, &align);
    int dims[1] = {count};
    int bounds[1] = {1};
    if (count == 0) return PointerGetDatum(construct_empty_array(element_type));
    return PointerGetDatum(construct_md_array(values, nulls, 1, dims, bounds, element_type, length, by_value, align));
}

}  // namespace jobq
