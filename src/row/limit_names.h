// Reads the names of a job's limits from the column `limits` of jobq.jobs.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "core/limit.h"
#include "row/jobs_table.h"

#include <string_view>

namespace jobq {

// Returns the elements of the array as a canonical set, whose strings point into the array. `limits` is nullptr for an
// empty array. Raises 22023 if there are more than core::kMaxLimitsOfJob different names, and the errors of names_of().
Names canonical_limits(ArrayType *limits);

// Returns the names as text[].
Datum array_of_names(const std::string_view *names, int count);

// The names of the limits of a job, in byte order and without duplicates.
struct LimitNames {
    std::string_view items[core::kMaxLimitsOfJob];
    int count;
};
// Calls body(names) with the names in a value of the column, or with no names if `none` is true. The names are valid
// until body() returns. Raises no error if a row has bypassed the triggers and contains more names than allowed: only
// the first names in byte order count.
LimitNames names_in_limits(const ArrayType *limits);
template <typename Body>
auto with_limit_names(Datum value, bool none, Body body) {
    if (none) return body(LimitNames{});
    ArrayType *limits = DatumGetArrayTypeP(value);
    const auto result = body(names_in_limits(limits));
    // Frees the copy, because a claim can read the names of many jobs.
    if (PointerGetDatum(limits) != value) pfree(limits);
    return result;
}

}  // namespace jobq
