// See job_arguments.h.
#include "compat/pg.h"

#include "core/group.h"
#include "core/limit.h"
#include "core/unique_key.h"
#include "job/job_arguments.h"

namespace jobq {

namespace {

// Returns the interval as text, such as '10 ms' or '365 days'.
const char *described_span(core::Micros span) {
    if (span % core::kDay == 0) return psprintf("%lld days", static_cast<long long>(span / core::kDay));
    return psprintf("%lld ms", static_cast<long long>(span / core::kMillisecond));
}

}  // namespace

core::Micros check_span_within(const core::QueueSetting &bounds, const Interval *value) {
    const bool may_be_zero = bounds.removable || bounds.lowest == 0;
    const core::Micros span = check_span(value, bounds.name, may_be_zero ? Zero::Allowed : Zero::Refused);
    if ((span < bounds.lowest || span > bounds.highest) && !(bounds.removable && span == 0))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 bounds.removable ? errmsg("argument \"%s\" must be between %s and %s, or 0 for none", bounds.name,
                                           described_span(bounds.lowest), described_span(bounds.highest))
                                  : errmsg("argument \"%s\" must be between %s and %s", bounds.name,
                                           described_span(bounds.lowest), described_span(bounds.highest)),
                 errhint("Omit the argument to use the default or to keep the current value.")));
    return span;
}

core::Micros check_heartbeat_timeout(const Interval *value) {
    return check_span_within(core::kHeartbeatTimeout, value);
}

// Rejects 0, because a caller must omit the argument if the job has no maximum run time of its own.
core::Micros check_max_runtime(const Interval *value) {
    core::QueueSetting bounds = core::kMaxRuntime;
    bounds.removable = false;
    return check_span_within(bounds, value);
}

// Accepts 0, because a job of a queue whose jobs expire might have to be kept until it has run.
core::Micros check_expires_in(const Interval *value) { return check_span_within(core::kExpiresIn, value); }

void check_unique_key(std::string_view key, ArgumentName name) {
    check_name(key, name, core::kMaxUniqueKeyBytes, false);
}

void check_concurrency_key(std::string_view key, ArgumentName name) {
    check_name(key, name, core::kMaxConcurrencyKeyBytes, false);
    if (key == core::kEachKey)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 name.element == 0 ? errmsg("argument \"%s\" must not be \"*\"", name.name)
                                   : errmsg("element %d of argument \"%s\" must not be \"*\"", name.element, name.name),
                 errhint("Choose another key. In jobq_set_limit(), \"*\" stands for each key of a queue.")));
}

void check_group_key(std::string_view key, ArgumentName name) { check_name(key, name, core::kMaxGroupKeyBytes, false); }

void check_unique_for(const Interval *value, bool has_key) {
    const core::Micros span = check_span(value, "unique_for", Zero::Allowed);
    if (span > core::kMaxUniqueFor)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"unique_for\" must be at most 36500 days"),
                 errhint("Use an interval such as '1 hour'.")));
    if (!has_key)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"unique_for\" requires argument \"unique_key\""),
                        errhint("Specify \"unique_key\" or omit \"unique_for\".")));
}

}  // namespace jobq
