// Collects the values of metrics for one call. The values are allocated in the current memory context and are not
// freed.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "metrics/families_policy.h"
#include "queues/scope.h"

#include <string_view>

namespace jobq {

struct Label {
    const char *name;
    std::string_view value;
};

// Which number of a histogram a sample contains; Value for other metrics.
enum class SamplePart : uint8 { Value, Bucket, Sum, Count };
const char *suffix_of(SamplePart part);

struct Sample {
    static constexpr int kMaxLabels = 4;
    core::Family family;
    SamplePart part;
    int labels;
    Label label[kMaxLabels];
    double value;

    Sample &with(const char *name, std::string_view value) {
        Assert(labels < kMaxLabels);
        if (!value.empty()) label[labels++] = {name, value};
        return *this;
    }
};

struct Samples {
    const QueueScope *scope;  // scope of the caller; nullptr if the caller may see all queues
    Notes<Sample> notes;

    // Stores a copy, so later changes of `sample` have no effect.
    void add(const Sample &sample) { notes.add(sample); }
    void gauge(core::Family family, double value) { add({family, SamplePart::Value, 0, {}, value}); }
};

// Returns a sample without labels.
inline Sample sample_of(core::Family family, double value, SamplePart part = SamplePart::Value) {
    return {family, part, 0, {}, value};
}

// Returns the number of seconds since the given time, at least 0. The time may be infinite, because rows can contain
// infinite times.
double seconds_since(TimestampTz moment);

// Collect samples in any order. If the caller is restricted to some queues, they collect samples only for these queues.
// Call them inside with_owner_spi().
void collect_totals(Samples *samples);
void collect_queues(Samples *samples);
void collect_server(Samples *samples);

// Collects all samples, ordered by family.
void collect_samples(Samples *samples);

}  // namespace jobq
