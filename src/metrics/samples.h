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

// The suffix of the name of a sample, which tells the parts of a histogram apart. Samples of other metrics use Value.
struct SamplePart {
    static constexpr char Value[] = "", Bucket[] = "_bucket", Sum[] = "_sum", Count[] = "_count";
};

struct Sample {
    static constexpr int kMaxLabels = 4;
    core::Family family;
    const char *part;  // a suffix in SamplePart
    int labels;
    Label label[kMaxLabels];
    double value;

    Sample &with(const char *name, std::string_view value) {
        Assert(labels < kMaxLabels);
        if (!value.empty()) label[labels++] = {name, value};
        return *this;
    }
};

// Returns a sample without labels.
inline Sample sample_of(core::Family family, double value, const char *part = SamplePart::Value) {
    return {.family = family, .part = part, .labels = 0, .label = {}, .value = value};
}

struct Samples {
    const QueueScope *scope;  // scope of the caller; nullptr if the caller may see all queues
    Notes<Sample> notes;

    // Stores a copy of the sample, so later changes to `sample` have no effect.
    void add(const Sample &sample) { notes.add(sample); }
    void gauge(core::Family family, double value) { add(sample_of(family, value)); }
};

// Returns the number of seconds since the given time, at least 0. The time can be infinite, because rows can contain
// infinite times.
double seconds_since(TimestampTz moment);

// These functions collect the samples of totals, of queues, and of the server, in any order. If the caller is
// restricted to some queues, the functions collect samples only for these queues. Call them inside with_owner_spi().
void collect_totals(Samples *samples);
void collect_queues(Samples *samples);
void collect_server(Samples *samples);
// Sets the function that collects the samples of executors.
void collect_executors_with(void (*collect)(Samples *samples));

// Collects all samples, ordered by family.
void collect_samples(Samples *samples);

}  // namespace jobq
