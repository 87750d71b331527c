// A function of the next release (scripts/next_release.sh). It exchanges the value of the column that this release
// adds.
#include "compat/pg.h"

#include "compat/args.h"
#include "job/change_job.h"

namespace jobq {

extern "C" {

PG_FUNCTION_INFO_V1(jobq_next);
PGDLLEXPORT Datum jobq_next(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0)) PG_RETURN_NULL();
    const int64 id = PG_GETARG_INT64(0);
    text *was = nullptr;
    change_locked_jobs(
        1, [&](int) { return id; },
        [&](JobsTable *jobs, int) {
            bool none;
            const Datum value = job_value(*jobs, kJobNext, &none);
            was = none ? nullptr : make_text(view(DatumGetTextPP(value)));
            OtherColumns others = {};
            others.set_if(!PG_ARGISNULL(1), kJobNext, PG_ARGISNULL(1) ? Datum(0) : PG_GETARG_DATUM(1));
            const JobState job = state_of(*jobs);
            return write_life(jobs, job, job.life, others);
        });
    if (was == nullptr) PG_RETURN_NULL();
    PG_RETURN_TEXT_P(was);
}

}  // extern "C"

}  // namespace jobq
