// See samples.h.
#include "compat/pg.h"

#include "core/clock.h"
#include "core/job.h"
#include "metrics/samples.h"
#include "metrics/text_policy.h"

#include <algorithm>

namespace jobq {

namespace {

// Makes all label values valid UTF-8. Names in a SQL_ASCII database can contain any bytes. If one name were invalid,
// the server would raise an error for a client with the encoding UTF8, so the client would get no metrics at all.
void make_labels_utf8(Samples *samples) {
    for (int i = 0; i < samples->notes.count; i++) {
        Sample *sample = &samples->notes.items[i];
        for (int j = 0; j < sample->labels; j++) {
            const std::string_view name = sample->label[j].value;
            auto *written = static_cast<char *>(palloc(core::kUtf8Growth * name.size()));
            sample->label[j].value = {written, core::write_as_utf8(name, written)};
        }
    }
}

}  // namespace

double seconds_since(TimestampTz moment) {
    const core::Micros age = core::saturating_subtract(GetCurrentTimestamp(), core::bounded_moment(moment));
    return Max(static_cast<double>(age) / core::kSecond, 0);
}

void collect_samples(Samples *samples) {
    collect_queues(samples);
    collect_totals(samples);
    // Samples that do not belong to a queue are shown only to roles that are allowed to see all queues.
    if (samples->scope == nullptr) collect_server(samples);
    if (GetDatabaseEncoding() == PG_SQL_ASCII) make_labels_utf8(samples);
    Sample *begin = samples->notes.items;
    std::stable_sort(begin, begin + samples->notes.count,
                     [](const Sample &a, const Sample &b) { return a.family < b.family; });
}

}  // namespace jobq
