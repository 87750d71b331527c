// See queue_settings.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "queues/queue_settings.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

void check_number(const core::QueueSetting &setting, int32 value) {
    if (value >= setting.lowest && value <= setting.highest) return;
    if (setting.removable && value == 0) return;
    const char *range = setting.highest == core::kAnyNumber
                            ? psprintf("at least %lld", static_cast<long long>(setting.lowest))
                            : psprintf("between %lld and %lld", static_cast<long long>(setting.lowest),
                                       static_cast<long long>(setting.highest));
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"%s\" must be %s%s, not %d", setting.name, range,
                           setting.removable ? ", or 0 for none" : "", value),
                    errhint("Leave it out to take the default, or to keep what is set.")));
}

// 'reject' or 'drop_oldest'.
const char *described_words(std::string_view words) {
    StringInfoData text;
    initStringInfo(&text);
    appendStringInfoChar(&text, '\'');
    for (const char c : words)
        if (c == ' ')
            appendStringInfoString(&text, "' or '");
        else
            appendStringInfoChar(&text, c);
    appendStringInfoChar(&text, '\'');
    return text.data;
}

void check_choice(const core::QueueSetting &setting, std::string_view word) {
    if (core::choice_of(setting.words, word) >= 0) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"%s\" has no such choice: \"%.*s\"", setting.name, static_cast<int>(word.size()),
                           word.data()),
                    errhint("Use %s.", described_words(setting.words))));
}

}  // namespace

void read_settings_at(const Row &row, int first, MemoryContext context, core::QueueSettings *settings) {
    int column = first - 1;
#define JOBQ_NUMBER(name, ...) \
    if (!row.is_null(++column)) settings->name = row.int32_at(column);
#define JOBQ_SPAN(name, ...) \
    if (!row.is_null(++column)) settings->name = span_of(DatumGetIntervalP(row.get(column)));
#define JOBQ_CHOICE(name, type, otherwise, words, text)                    \
    if (!row.is_null(++column)) {                                          \
        const int choice = core::choice_of(words, row.text_at(column));    \
        if (choice >= 0) settings->name = static_cast<core::type>(choice); \
    }
#define JOBQ_QUEUE(name, ...) \
    if (!row.is_null(++column)) settings->name = keep(context, row.text_at(column));
#define JOBQ_SWITCH(name, ...) \
    if (!row.is_null(++column)) settings->name = row.bool_at(column);
    JOBQ_QUEUE_SETTINGS(JOBQ_NUMBER, JOBQ_SPAN, JOBQ_CHOICE, JOBQ_QUEUE, JOBQ_SWITCH)
#undef JOBQ_NUMBER
#undef JOBQ_SPAN
#undef JOBQ_CHOICE
#undef JOBQ_QUEUE
#undef JOBQ_SWITCH
}

Oid setting_type(const core::QueueSetting &setting) {
    switch (setting.type) {
        case core::SettingType::Number:
            return INT4OID;
        case core::SettingType::Span:
            return INTERVALOID;
        case core::SettingType::Switch:
            return BOOLOID;
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
        case core::SettingType::Choice:
            check_choice(setting, view(DatumGetTextPP(value)));
            break;
        case core::SettingType::Queue:
            if (!takes_away(setting, value)) check_queue_name(view(DatumGetTextPP(value)), setting.name);
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
        case core::SettingType::Queue:
            return view(DatumGetTextPP(value)).empty();
        case core::SettingType::Choice:
        case core::SettingType::Switch:
            break;
    }
    return false;
}

}  // namespace jobq
