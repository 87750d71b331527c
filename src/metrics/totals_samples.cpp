// Collects the totals and histograms of each queue and kind.
#include "compat/pg.h"

#include "compat/settings.h"
#include "metrics/samples.h"
#include "metrics/text_policy.h"
#include "metrics/totals.h"

#include <limits>

namespace jobq {

namespace {

constexpr double kMicros = static_cast<double>(core::kSecond);
// Start of the server's time scale (2000-01-01) in Unix seconds.
constexpr double kEpoch = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * 86400.0;

// The nameless series is recognized by its empty queue, because a kind may be empty but a queue is not.
Sample of_series(const Series &series, core::Family family, double value, SamplePart part = SamplePart::Value) {
    Sample sample = sample_of(family, value, part);
    if (series.name.queue_bytes == 0) return sample.with("overflow", "true");
    return sample.with("queue", series.name.queue()).with("kind", series.name.kind());
}

void add_tallies(Samples *samples, const Series &series) {
    for (int i = 0; i < core::kTallies; i++) {
        const core::TallyLabel &label = core::kTallyLabels[i];
        Sample sample = of_series(series, label.family, static_cast<double>(series.numbers.values[i]));
        samples->add(sample.with("outcome", label.outcome));
    }
}

// Caches the texts, because they are the same in every answer.
std::string_view text_of_bound(int bucket) {
    static char texts[core::kBuckets][core::kValueBytes];
    static uint8 sizes[core::kBuckets];
    if (sizes[bucket] == 0)
        sizes[bucket] = static_cast<uint8>(core::write_value(bucket < core::kBounds
                                                                 ? static_cast<double>(core::bound_of(bucket)) / kMicros
                                                                 : std::numeric_limits<double>::infinity(),
                                                             texts[bucket]));
    return {texts[bucket], sizes[bucket]};
}

// In the exposition format, each bucket includes all buckets before it, and the last bucket equals the count.
void add_histogram(Samples *samples, const Series &series, core::Span span) {
    const core::Family family = core::family_of(span);
    double count = 0;
    for (int bucket = 0; bucket < core::kBuckets; bucket++) {
        count += static_cast<double>(series.numbers.values[core::SeriesNumbers::of(span, bucket)]);
        Sample sample = of_series(series, family, count, SamplePart::Bucket);
        samples->add(sample.with("le", text_of_bound(bucket)));
    }
    const double sum = static_cast<double>(series.numbers.values[core::SeriesNumbers::sum_of(span)]) / kMicros;
    samples->add(of_series(series, family, sum, SamplePart::Sum));
    samples->add(of_series(series, family, count, SamplePart::Count));
}

}  // namespace

void collect_totals(Samples *samples) {
    const Totals totals = read_totals();
    for (int i = 0; i < totals.count; i++) {
        const Series &series = totals.series[i];
        if (samples->scope != nullptr && !is_in_scope(samples->scope, series.name.queue())) continue;
        add_tallies(samples, series);
        add_histogram(samples, series, core::Span::Wait);
        add_histogram(samples, series, core::Span::Run);
    }
    if (samples->scope != nullptr || !totals.known) return;
    samples->gauge(core::Family::StatsReset, static_cast<double>(totals.since) / kMicros + kEpoch);
    samples->gauge(core::Family::Missed, static_cast<double>(totals.missed));
}

}  // namespace jobq
