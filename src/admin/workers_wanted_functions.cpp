// The SQL function jobq_workers_wanted.
#include "compat/pg.h"

#include "admin/workers_wanted.h"
#include "compat/args.h"
#include "queues/granted.h"
#include "row/owner.h"

namespace jobq {

namespace {

constexpr int32 kMostSlots = 10000;

int32 slots_argument(FunctionCallInfo fcinfo, int n) {
    require(fcinfo, n, "slots");
    const int32 slots = PG_GETARG_INT32(n);
    if (slots < 1 || slots > kMostSlots)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"slots\" must be between 1 and %d, not %d", kMostSlots, slots),
                        errhint("Specify how many jobs one worker runs at the same time.")));
    return slots;
}

core::Micros span_argument(FunctionCallInfo fcinfo, int n, const char *name) {
    require(fcinfo, n, name);
    return check_span(PG_GETARG_INTERVAL_P(n), name, Zero::Refused);
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_workers_wanted);
PGDLLEXPORT Datum jobq_workers_wanted(PG_FUNCTION_ARGS) {
    enum { QueueName, Target, Slots, Duration };
    WorkersRequest request = {};
    request.queue = view(granted_queue(fcinfo, QueueName, "queue"));
    request.target = span_argument(fcinfo, Target, "target");
    request.slots = slots_argument(fcinfo, Slots);
    if (given(fcinfo, Duration)) request.duration = span_argument(fcinfo, Duration, "duration");
    PG_RETURN_INT32(with_owner_spi([&] { return workers_wanted(request, GetCurrentTimestamp()); }));
}

}  // extern "C"

}  // namespace jobq
