// Optional attributes of a job that an enqueue copies unchanged into columns of jobq.jobs. All jobs of a call have the
// same values. An attribute that is added here also needs a column (row/job_columns.h), a parameter of the INSERT in
// enqueue_keyed.cpp, and a JSON key (specs.cpp).
#pragma once

#include "compat/pg.h"
#include "row/job_columns.h"

namespace jobq {

// The attributes are in the order of the corresponding parameters of the INSERT in enqueue_keyed.cpp.
enum OptionalAttribute {
    kMetadata,
    kRequires,
    kHeartbeatTimeout,
    kMaxRuntime,
    kUniqueFor,
    kBatchId,  // only an enqueue sets it: a replaced job and a copy of a job do not join the batch
    kLimits,
    kOptionalAttributes
};

struct AttributeTraits {
    JobColumn column;  // no valid value is Datum(0), which stands for "no value"
    // Raises an error if the value is invalid. The pointer is nullptr if values that are passed to a function need
    // different checks than values that are set with plain SQL; enqueue_specs.cpp contains the checks for functions.
    void (*check)(Datum value, bool has_unique_key);
    // Returns whether two values are equal. If the pointer is nullptr, jobs with this attribute are not enqueued
    // together in one statement.
    bool (*equal)(Datum a, Datum b);
};
extern const AttributeTraits kAttributes[kOptionalAttributes];

}  // namespace jobq
