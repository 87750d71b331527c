// The SQL functions jobq_metrics, jobq_prometheus, jobq_reset_metrics, and jobq.metric_families.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/json_object.h"
#include "compat/result_set.h"
#include "metrics/samples.h"
#include "metrics/text_policy.h"
#include "metrics/totals.h"
#include "row/owner.h"

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

void append(StringInfo to, std::string_view text) {
    appendBinaryStringInfo(to, text.data(), static_cast<int>(text.size()));
}

Datum labels_of(const Sample &sample) {
    JsonObject labels;
    for (int i = 0; i < sample.labels; i++) labels.text_of(sample.label[i].name, sample.label[i].value);
    return labels.made();
}

using Escaped = std::string_view (*)(char);

void append_escaped(StringInfo to, std::string_view text, Escaped escaped) {
    for (const char c : text) {
        const std::string_view instead = escaped(c);
        if (instead.empty())
            appendStringInfoChar(to, c);
        else
            append(to, instead);
    }
}

void append_family(StringInfo to, const core::FamilyRow &family) {
    appendStringInfo(to, "# HELP %s ", family.name);
    append_escaped(to, family.help, core::escaped_in_help);
    appendStringInfo(to, "\n# TYPE %s %s\n", family.name, family.type);
}

void append_sample(StringInfo to, const Sample &sample) {
    appendStringInfo(to, "%s%s", row_of(sample.family).name, sample.part);
    for (int i = 0; i < sample.labels; i++) {
        appendStringInfo(to, "%s%s=\"", i == 0 ? "{" : ",", sample.label[i].name);
        append_escaped(to, sample.label[i].value, core::escaped_in_label);
        appendStringInfoChar(to, '"');
    }
    if (sample.labels > 0) appendStringInfoChar(to, '}');
    char value[core::kValueBytes];
    appendStringInfoChar(to, ' ');
    append(to, {value, core::write_value(sample.value, value)});
    appendStringInfoChar(to, '\n');
}

// Returns the samples as text in the exposition format, allocated in the memory context that was current before SPI was
// opened.
text *exposition(const Samples &samples) {
    StringInfoData out;
    initStringInfo(&out);
    for (int i = 0; i < samples.notes.count; i++) {
        CHECK_FOR_INTERRUPTS();
        const Sample &sample = samples.notes.items[i];
        if (i == 0 || samples.notes.items[i - 1].family != sample.family) append_family(&out, row_of(sample.family));
        append_sample(&out, sample);
    }
    auto *result = static_cast<text *>(SPI_palloc(VARHDRSZ + out.len));
    SET_VARSIZE(result, VARHDRSZ + out.len);
    memcpy(VARDATA(result), out.data, out.len);
    return result;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_metrics);
PGDLLEXPORT Datum jobq_metrics(PG_FUNCTION_ARGS) {
    Samples samples = {scope_of(fcinfo), {}};
    ResultSet results(fcinfo);
    with_owner_spi([&] {
        collect_samples(&samples);
        MemoryContext each = AllocSetContextCreate(CurrentMemoryContext, "jobq metric", ALLOCSET_DEFAULT_SIZES);
        for (int i = 0; i < samples.notes.count; i++) {
            CHECK_FOR_INTERRUPTS();
            const Sample &sample = samples.notes.items[i];
            MemoryContext before = MemoryContextSwitchTo(each);
            const char *name = psprintf("%s%s", row_of(sample.family).name, sample.part);
            results.row({CStringGetTextDatum(name), labels_of(sample), Float8GetDatum(sample.value)});
            MemoryContextSwitchTo(before);
            MemoryContextReset(each);
        }
    });
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_prometheus);
PGDLLEXPORT Datum jobq_prometheus(PG_FUNCTION_ARGS) {
    Samples samples = {scope_of(fcinfo), {}};
    text *result = with_owner_spi([&] {
        collect_samples(&samples);
        return exposition(samples);
    });
    PG_RETURN_TEXT_P(result);
}

PG_FUNCTION_INFO_V1(jobq_reset_metrics);
PGDLLEXPORT Datum jobq_reset_metrics(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    check_all_queues(fcinfo);
    const TimestampTz since = reset_totals();
    if (since == 0) PG_RETURN_NULL();
    PG_RETURN_TIMESTAMPTZ(since);
}

PG_FUNCTION_INFO_V1(jobq_metric_families);
PGDLLEXPORT Datum jobq_metric_families(PG_FUNCTION_ARGS) {
    ResultSet results(fcinfo);
    for (const core::FamilyRow &family : core::kFamilies)
        results.row({CStringGetTextDatum(family.name), CStringGetTextDatum(family.type),
                     CStringGetTextDatum(family.labels), CStringGetTextDatum(family.help)});
    return results.done();
}

}  // extern "C"

}  // namespace jobq
