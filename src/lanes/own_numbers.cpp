// See own_numbers.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "core/limit.h"
#include "lanes/lanes.h"
#include "lanes/own_numbers.h"
#include "row/job_columns.h"
#include "row/limit_names.h"
#include "row/numbers.h"

#include <algorithm>

namespace jobq {

namespace {

core::OptInt64 with_limit(const core::OptInt64 &slot, int64 limit) {
    return slot ? core::OptInt64(core::slot_of(limit, core::number_of_slot(*slot))) : core::OptInt64();
}

// These functions return true if the values are invalid, which means that no lane number can be computed from them. A
// row with invalid values has bypassed the triggers, which check the values, but even such a row must not cause an
// error here.
bool is_odd(const JobState &job) {
    return job.queue.size() > core::kMaxQueueBytes || job.kind.size() > core::kMaxKindBytes;
}
bool is_odd(ArrayType *required) {
    return ARR_NDIM(required) > 1 || array_contains_nulls(required) ||
           ArrayGetNItems(ARR_NDIM(required), ARR_DIMS(required)) > core::kMaxCapabilities;
}
bool is_odd(const Names &required) {
    return std::any_of(required.items, required.items + required.count,
                       [](std::string_view name) { return name.size() > core::kMaxCapabilityBytes; });
}

int64 lane_of_words(HeapTuple row, TupleDesc desc, const JobState &job) {
    if (is_odd(job)) return job.lane;
    bool none;
    const int32 version = DatumGetInt32(SPI_getbinval(row, desc, kJobVersion, &none));
    const auto names_at = [&](JobColumn column, const char *name, int most, Names *names) {
        const Datum value = SPI_getbinval(row, desc, column, &none);
        *names = {nullptr, 0};
        if (none) return true;
        ArrayType *array = DatumGetArrayTypeP(value);
        if (is_odd(array)) return false;
        *names = names_of(array, name, SIZE_MAX, PG_INT32_MAX);
        if (is_odd(*names)) return false;
        names->count = core::canonical_set(names->items, names->count);
        return names->count <= most;
    };
    Names required, limits;
    if (!names_at(kJobRequires, "requires", core::kMaxCapabilities, &required) ||
        !names_at(kJobLimits, "limits", core::kMaxLimitsOfJob, &limits))
        return job.lane;
    return lane_number(job.queue, job.kind, version, required, limits);
}

// Replaces the numbers of the named limits in the slots that the job holds.
void renumber_named_slots(HeapTuple row, TupleDesc desc, core::Life *life) {
    if (!life->limit_slot1 && !life->limit_slot2) return;
    bool none;
    const Datum value = SPI_getbinval(row, desc, kJobLimits, &none);
    with_limit_names(value, none, [&](const LimitNames &names) {
        if (names.count > 0) life->limit_slot1 = with_limit(life->limit_slot1, named_limit_id(names.items[0]));
        if (names.count > 1) life->limit_slot2 = with_limit(life->limit_slot2, named_limit_id(names.items[1]));
        return true;
    });
}

}  // namespace

OwnNumbers own_numbers(HeapTuple row, TupleDesc desc) {
    OwnNumbers own = {};
    own.found = state_of_tuple(row, desc);
    own.life = own.found.life;
    own.lane = lane_of_words(row, desc, own.found);
    bool none;
    const Datum group_key = SPI_getbinval(row, desc, kJobGroupKey, &none);
    if (!none) {
        const int64 group = group_number(own.found.queue, view(DatumGetTextPP(group_key)));
        if (own.life.group_waiting) own.life.group_waiting = group;
        if (own.life.group_active) own.life.group_active = group;
        own.life.group = group;
    }
    own.life.queue_slot = with_limit(own.life.queue_slot, queue_limit_id(own.found.queue));
    own.life.key_slot = with_limit(own.life.key_slot, key_limit_id(own.found.queue, own.found.concurrency_key));
    own.life.kind_slot = with_limit(own.life.kind_slot, kind_limit_id(own.found.queue, own.found.kind));
    renumber_named_slots(row, desc, &own.life);
    const Datum key = SPI_getbinval(row, desc, kJobRoundRobinKey, &none);
    if (!none) own.round_robin_key = round_robin_key_of(own.found.concurrency_key);
    own.differ = own.lane != own.found.lane || core::differing(own.life, own.found.life) != 0 ||
                 (own.round_robin_key && *own.round_robin_key != DatumGetInt64(key));
    return own;
}

}  // namespace jobq
