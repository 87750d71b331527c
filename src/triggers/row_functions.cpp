// Functions that the triggers and expressions of jobq's tables call: they compute hashes for lanes, round-robin keys,
// and groups, and determine whether a statement was issued by jobq itself.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "lanes/lanes.h"
#include "row/numbers.h"
#include "table/early_toast.h"

namespace jobq {

extern "C" {

PG_FUNCTION_INFO_V1(jobq_lane_of);
PGDLLEXPORT Datum jobq_lane_of(PG_FUNCTION_ARGS) {
    // Returns NULL, because the constraints of the table will reject the row.
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2)) PG_RETURN_NULL();
    ArrayType *required = PG_ARGISNULL(3) ? nullptr : PG_GETARG_ARRAYTYPE_P(3);
    ArrayType *limits = PG_ARGISNULL(4) ? nullptr : PG_GETARG_ARRAYTYPE_P(4);
    PG_RETURN_INT64(
        lane_id(view(PG_GETARG_TEXT_PP(0)), view(PG_GETARG_TEXT_PP(1)), PG_GETARG_INT32(2), required, limits));
}

PG_FUNCTION_INFO_V1(jobq_round_robin_key_of);
PGDLLEXPORT Datum jobq_round_robin_key_of(PG_FUNCTION_ARGS) {
    PG_RETURN_INT64(round_robin_key_of(PG_ARGISNULL(0) ? std::string_view() : view(PG_GETARG_TEXT_PP(0))));
}

PG_FUNCTION_INFO_V1(jobq_group_of);
PGDLLEXPORT Datum jobq_group_of(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1)) PG_RETURN_NULL();
    PG_RETURN_INT64(group_number(view(PG_GETARG_TEXT_PP(0)), view(PG_GETARG_TEXT_PP(1))));
}

PG_FUNCTION_INFO_V1(jobq_by_hand);
PGDLLEXPORT Datum jobq_by_hand(PG_FUNCTION_ARGS) {
    // fn_mcxt identifies the statement, because a WHEN condition is prepared in the memory context of the statement
    // that evaluates it.
    PG_RETURN_BOOL(!is_own_query(fcinfo->flinfo->fn_mcxt));
}

// Must be used only in jobq's own statements, because other statements might keep the pointer longer than the value
// exists.
PG_FUNCTION_INFO_V1(jobq_apart);
PGDLLEXPORT Datum jobq_apart(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0)) PG_RETURN_NULL();
    const Datum value = PG_GETARG_DATUM(0);
    PG_RETURN_DATUM(is_own_query(fcinfo->flinfo->fn_mcxt) ? apart(value) : value);
}

}  // extern "C"

}  // namespace jobq
