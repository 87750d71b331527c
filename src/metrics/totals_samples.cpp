// Collects samples of the totals and histograms of each queue and kind.
#include "compat/pg.h"

#include "metrics/samples.h"
#include "metrics/text_policy.h"
#include "metrics/totals.h"

#include <limits>

namespace jobq {

namespace {

constexpr double kMicros = static_cast<double>(core::kSecond);
// The epoch of PostgreSQL's timestamps (2000-01-01) in Unix time, in seconds.
constexpr double kEpoch = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * 86400.0;

// Returns a sample with the labels of the series. The nameless series is recognized by its empty queue name, because
// the name of a kind can be empty, but the name of a queue cannot.
Sample of_series(const Series &series, core::Family family, double value, const char *part = SamplePart::Value) {
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

// Returns the upper bound of a bucket as text. Caches the texts, because they never change.
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

// Adds the samples of a histogram. In the exposition format, the value of each bucket includes the values of all lower
// buckets, and the value of the last bucket equals the count.
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
