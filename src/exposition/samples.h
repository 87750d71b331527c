// The values of metrics, as they are collected for one answer. A class of its own room: memory of the current context,
// nothing is freed.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "exposition/families_policy.h"
#include "queues/scope.h"

#include <string_view>

namespace jobq {

struct Label {
    const char *name;
    std::string_view value;
};

// Of a histogram: which of its numbers.
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
    const QueueScope *scope;  // of whom they are for; nullptr: of who may see all
    Notes<Sample> notes;

    // A copy of it is kept: what is added to the result is, too.
    void add(const Sample &sample) { notes.add(sample); }
    void gauge(core::Family family, double value) { add({family, SamplePart::Value, 0, {}, value}); }
};

// A value of a family, without labels so far.
inline Sample sample_of(core::Family family, double value, SamplePart part = SamplePart::Value) {
    return {family, part, 0, {}, value};
}

// How long ago that was; 0: not at all. What stands in a row may be infinite.
double seconds_since(TimestampTz moment);

// What there is to tell, in no order, inside with_owner_spi(). Who is kept to some queues hears of these only.
void collect_totals(Samples *samples);
void collect_queues(Samples *samples);
void collect_server(Samples *samples);

// All of it, in the order of the families.
void collect_samples(Samples *samples);

}  // namespace jobq
