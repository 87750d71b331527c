// See attributes.h.
#include "compat/pg.h"

#include "enqueue/attributes.h"
#include "job/job_arguments.h"
#include "row/limit_names.h"

extern "C" {
#include "utils/datum.h"
}

namespace jobq {

namespace {

bool same_interval(Datum a, Datum b) {
    const Interval *one = DatumGetIntervalP(a), *other = DatumGetIntervalP(b);
    return one->month == other->month && one->day == other->day && one->time == other->time;
}

}  // namespace

const AttributeTraits kAttributes[kOptionalAttributes] = {
    {kJobMetadata, nullptr, nullptr},
    {kJobRequires, nullptr, nullptr},
    {kJobHeartbeatTimeout, [](Datum value, bool) { check_heartbeat_timeout(DatumGetIntervalP(value)); }, same_interval},
    {kJobMaxRuntime, [](Datum value, bool) { check_max_runtime(DatumGetIntervalP(value)); }, same_interval},
    {kJobUniqueFor,
     [](Datum value, bool has_unique_key) { check_unique_for(DatumGetIntervalP(value), has_unique_key); },
     same_interval},
    {kJobBatchId, nullptr, [](Datum a, Datum b) { return DatumGetInt64(a) == DatumGetInt64(b); }},
    {kJobLimits, [](Datum value, bool) { canonical_limits(DatumGetArrayTypeP(value)); },
     [](Datum a, Datum b) { return datumIsEqual(a, b, false, -1); }},
};

}  // namespace jobq
