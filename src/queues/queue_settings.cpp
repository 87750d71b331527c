// See queue_settings.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "job/job_arguments.h"
#include "queues/queue_settings.h"
#include "row/limit_names.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

void check_number(const core::QueueSetting &setting, int32 value) {
    if (value >= setting.lowest && value <= setting.highest) return;
    if (setting.removable && value == 0) return;
    const auto lowest = static_cast<long long>(setting.lowest), highest = static_cast<long long>(setting.highest);
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             setting.highest != core::kAnyNumber
                 ? errmsg("argument \"%s\" must be between %lld and %lld, not %d", setting.name, lowest, highest, value)
             : setting.removable
                 ? errmsg("argument \"%s\" must be 0 (none) or at least %lld, not %d", setting.name, lowest, value)
                 : errmsg("argument \"%s\" must be at least %lld, not %d", setting.name, lowest, value),
             errhint("Omit the argument to use the default or to keep the current value.")));
}

void check_choice(const core::QueueSetting &setting, std::string_view word) {
    if (core::choice_of(setting.words, word) >= 0) return;
    std::string_view choices[core::kMostChoices];
    const int count = core::split_choices(setting.words, choices);
    refuse_choice(setting.name, word, choices, count);
}

Elements spans_in(Datum list, const char *name, NullElements nulls) {
    return elements_of(DatumGetArrayTypeP(list), INTERVALOID, name, core::kMaxSpans, nulls);
}

void check_spans(const core::QueueSetting &setting, Datum list) {
    const Elements spans = spans_in(list, setting.name, NullElements::Refused);
    for (int i = 0; i < spans.count; i++) check_span(DatumGetIntervalP(spans.values[i]), setting.name, Zero::Allowed);
}

// These functions read the value of a setting from its column into `field`.
void read_setting(const Row &row, int column, MemoryContext, const char *, int32 *field) {
    *field = row.int32_at(column);
}
void read_setting(const Row &row, int column, MemoryContext, const char *, core::Micros *field) {
    *field = span_of(DatumGetIntervalP(row.get(column)));
}
void read_setting(const Row &row, int column, MemoryContext, const char *, bool *field) {
    *field = row.bool_at(column);
}
void read_setting(const Row &row, int column, MemoryContext context, const char *, std::string_view *field) {
    *field = keep(context, row.text_at(column));
}
void read_setting(const Row &row, int column, MemoryContext context, const char *, core::SpanList *field) {
    const Elements spans = spans_in(row.get(column), "", NullElements::Allowed);
    *field = {};
    if (spans.count == 0) return;
    auto *items = static_cast<core::Micros *>(MemoryContextAlloc(context, sizeof(core::Micros) * spans.count));
    for (int i = 0; i < spans.count; i++) items[i] = spans.nulls[i] ? 0 : span_of(DatumGetIntervalP(spans.values[i]));
    *field = {items, spans.count};
}
void read_setting(const Row &row, int column, MemoryContext context, const char *, core::NameList *field) {
    *field = {};
    const LimitNames names = names_in_limits(DatumGetArrayTypeP(row.get(column)));
    if (names.count == 0) return;
    auto *items = static_cast<std::string_view *>(MemoryContextAlloc(context, sizeof(std::string_view) * names.count));
    for (int i = 0; i < names.count; i++) items[i] = keep(context, names.items[i]);
    *field = {items, names.count};
}
template <typename Choice>
void read_setting(const Row &row, int column, MemoryContext, const char *words, Choice *field) {
    const int choice = core::choice_of(words, row.text_at(column));
    if (choice >= 0) *field = static_cast<Choice>(choice);
}

}  // namespace

const char *setting_columns(core::SettingLevel level, const char *prefix) {
    StringInfoData columns;
    initStringInfo(&columns);
    for (const core::QueueSetting &setting : core::kQueueSettingTable)
        if (core::is_at(setting.level, level)) appendStringInfo(&columns, ", %s%s", prefix, setting.name);
    return columns.data;
}

void read_settings_at(const Row &row, int first, core::SettingLevel level, MemoryContext context,
                      core::QueueSettings *settings) {
    int column = first - 1;
#define JOBQ_SETTING(name, has, form, type, otherwise, words, ...)             \
    if (core::is_at(core::SettingLevel::has, level) && !row.is_null(++column)) \
        read_setting(row, column, context, words, &settings->name);
    JOBQ_EACH_SETTING
#undef JOBQ_SETTING
}

Oid setting_type(const core::QueueSetting &setting) {
    switch (setting.type) {
        case core::SettingType::Number:
            return INT4OID;
        case core::SettingType::Span:
            return INTERVALOID;
        case core::SettingType::Spans:
            return INTERVALARRAYOID;
        case core::SettingType::Switch:
            return BOOLOID;
        case core::SettingType::Names:
            return TEXTARRAYOID;
        case core::SettingType::Choice:
        case core::SettingType::Queue:
            return TEXTOID;
    }
    return InvalidOid;
}

void check_setting(const core::QueueSetting &setting, Datum value) {
    switch (setting.type) {
        case core::SettingType::Number:
            check_number(setting, DatumGetInt32(value));
            break;
        case core::SettingType::Span:
            check_span_within(setting, DatumGetIntervalP(value));
            break;
        case core::SettingType::Spans:
            check_spans(setting, value);
            break;
        case core::SettingType::Choice:
            check_choice(setting, view(DatumGetTextPP(value)));
            break;
        case core::SettingType::Queue:
            if (!takes_away(setting, value)) check_queue_name(view(DatumGetTextPP(value)), setting.name);
            break;
        case core::SettingType::Names:
            canonical_limits(DatumGetArrayTypeP(value));
            break;
        case core::SettingType::Switch:
            break;
    }
}

bool takes_away(const core::QueueSetting &setting, Datum value) {
    if (!setting.removable) return false;
    switch (setting.type) {
        case core::SettingType::Number:
            return DatumGetInt32(value) == 0;
        case core::SettingType::Span:
            return span_of(DatumGetIntervalP(value)) == 0;
        case core::SettingType::Spans:
        case core::SettingType::Names:
            return ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(value)), ARR_DIMS(DatumGetArrayTypeP(value))) == 0;
        case core::SettingType::Queue:
            return view(DatumGetTextPP(value)).empty();
        case core::SettingType::Choice:
        case core::SettingType::Switch:
            break;
    }
    return false;
}

}  // namespace jobq
