// The SQL function jobq_tick(), which runs all duties in the caller's transaction.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "compat/transaction.h"
#include "duties/tick.h"
#include "identity/identity.h"
#include "queues/scope.h"
#include "row/owner.h"
#include "shmem/wall_clock.h"

namespace jobq {

namespace {

// Time after which jobq_tick() ends a duty whose last batch was not full, even if the duty's search for rows has not
// reached the end. The next call continues the search.
constexpr core::Micros kIdleTimeByHand = 5000;
// Maximum number of batches in one step. Each step handles twice as many jobs as the previous step.
constexpr int kMostBatches = 1024;

void warn_of_failed_jobs(Duty duty, const DutyOutcome &batch) {
    ereport(WARNING, (errcode(ERRCODE_WARNING),
                      errmsg_plural("duty \"%s\" skipped %lld row that could not be changed",
                                    "duty \"%s\" skipped %lld rows that could not be changed",
                                    static_cast<unsigned long>(batch.failed), core::traits_of(duty).name,
                                    static_cast<long long>(batch.failed)),
                      errdetail("The first error was: %s", batch.error)));
}

void tick(ResultSet *results, TimestampTz now) {
    const Rest rest = rest_of_duties();
    if (rest == Rest::Restore)
        ereport(NOTICE, (errmsg("jobq_tick() did nothing because a dump is being restored"),
                         errhint("Call jobq_tick() again after the restoring session has disconnected.")));
    if (rest == Rest::Copy)
        ereport(WARNING, (errcode(ERRCODE_WARNING), errmsg("jobq_tick() did nothing because the database is a copy"),
                          errdetail("%s", describe_origin()), errhint("%s", adoption_hint())));
    for (int i = 0; i < kDutyCount; i++) {
        const auto duty = static_cast<Duty>(i);
        DutyOutcome batch = {};
        batch.more = rest == Rest::None;
        int64 done = 0;
        int64 failed = 0;
        const TimestampTz begin = GetCurrentTimestamp();
        const auto has_time = [&] { return GetCurrentTimestamp() - begin < kIdleTimeByHand; };
        for (int batches = 1; batch.more || ((batch.unread || batch.lapping) && has_time());
             batches = Min(2 * batches, kMostBatches)) {
            batch = run_duty(duty, now, grace_start(), batches);
            done += batch.done;
            failed += batch.failed;
            if (batch.failed > 0 && failed == batch.failed) warn_of_failed_jobs(duty, batch);
            CHECK_FOR_INTERRUPTS();
        }
        results->row({CStringGetTextDatum(core::traits_of(duty).name), Int64GetDatum(done)});
    }
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_tick);
PGDLLEXPORT Datum jobq_tick(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const TimestampTz now = given(fcinfo, 0) ? check_finite(PG_GETARG_TIMESTAMPTZ(0), "now") : GetCurrentTimestamp();
    check_all_queues(fcinfo);
    ResultSet results(fcinfo);
    // Immediately checks, with the privileges of the caller, the deferred constraints that the caller's statements have
    // left pending. From now on, deferred constraints are checked at the end of each statement, so that the duties can
    // skip a job that violates a deferred constraint.
    check_deferred_constraints();
    as_owner([&] { tick(&results, now); });
    return results.done();
}

}  // extern "C"

}  // namespace jobq
