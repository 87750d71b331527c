// See round_robin_setting.h.
#include "compat/pg.h"

#include "claim/round_robin_setting.h"
#include "compat/spi.h"

namespace jobq {

namespace {

Statement lock_jobs = {"LOCK TABLE jobq.jobs IN SHARE ROW EXCLUSIVE MODE", {}, Planning::Free};

// Whoever has enqueued into the queue has left a lane: a queue without any is not searched for in the table.
Statement give = {
    R"(UPDATE jobq.jobs j SET _round_robin_key = jobq.round_robin_key_of(j.concurrency_key)
       WHERE EXISTS (SELECT FROM jobq.lane_directory d WHERE d.queue = $1) AND j.queue = $1
         AND j._round_robin_key IS DISTINCT FROM jobq.round_robin_key_of(j.concurrency_key))",
    {TEXTOID},
    Planning::Free};

}  // namespace

void give_round_robin_keys(text *queue) {
    // What was committed while we waited for the lock must be seen.
    if (IsolationUsesXactSnapshot())
        ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                        errmsg("round_robin can only be switched on in a READ COMMITTED transaction"),
                        errhint("Run the statement outside a transaction block, or in one of that level.")));
    run(lock_jobs, Params());
    run(give, Params().add(PointerGetDatum(queue)));
}

}  // namespace jobq
