// See other_queue.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "lanes/lane_policy.h"
#include "lanes/other_queue.h"

namespace jobq {

bool is_of_other_queue(const JobsTable &jobs, std::string_view queue) {
    const std::string_view own = view(DatumGetTextPP(job_value(jobs, kJobQueue)));
    if (own == queue) return false;
    MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "jobq lane", ALLOCSET_SMALL_SIZES);
    MemoryContext outer = MemoryContextSwitchTo(scratch);
    bool none;
    const Datum value = job_value(jobs, kJobRequires, &none);
    ArrayType *required = none ? nullptr : DatumGetArrayTypeP(value);
    // What no lane is made of: no error is due here.
    const bool is_odd = required != nullptr && (ARR_NDIM(required) > 1 || array_contains_nulls(required));
    bool same = false;
    if (!is_odd) {
        Names names = {nullptr, 0};
        if (required != nullptr) names = names_of(required, "requires", SIZE_MAX, PG_INT32_MAX);
        names.count = core::canonical_set(names.items, names.count);
        same = core::lane_hash(own, view(DatumGetTextPP(job_value(jobs, kJobKind))),
                               DatumGetInt32(job_value(jobs, kJobVersion)), names.items,
                               names.count) == DatumGetInt64(job_value(jobs, kJobLane));
    }
    MemoryContextSwitchTo(outer);
    MemoryContextDelete(scratch);
    return same;
}

}  // namespace jobq
