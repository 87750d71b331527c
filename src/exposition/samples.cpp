// See samples.h.
#include "compat/pg.h"

#include "base/clock.h"
#include "exposition/samples.h"
#include "job/job_policy.h"

#include <algorithm>

namespace jobq {

const char *suffix_of(SamplePart part) {
    switch (part) {
        case SamplePart::Value:
            return "";
        case SamplePart::Bucket:
            return "_bucket";
        case SamplePart::Sum:
            return "_sum";
        case SamplePart::Count:
            return "_count";
    }
    return "";
}

double seconds_since(TimestampTz moment) {
    const core::Micros age = core::saturating_subtract(GetCurrentTimestamp(), core::bounded_moment(moment));
    return Max(static_cast<double>(age) / core::kSecond, 0);
}

void collect_samples(Samples *samples) {
    collect_queues(samples);
    collect_totals(samples);
    // What is of no queue is for who may see all.
    if (samples->scope == nullptr) collect_server(samples);
    Sample *begin = samples->notes.items;
    std::stable_sort(begin, begin + samples->notes.count,
                     [](const Sample &a, const Sample &b) { return a.family < b.family; });
}

}  // namespace jobq
