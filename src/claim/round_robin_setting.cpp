// See round_robin_setting.h.
#include "compat/pg.h"

#include "claim/round_robin_setting.h"
#include "compat/spi.h"

namespace jobq {

namespace {

Statement lock_jobs = {"LOCK TABLE jobq.jobs IN SHARE ROW EXCLUSIVE MODE", {}, Planning::Free};

// SQL condition: j is a job of the queue, and its round-robin key is missing or wrong. The condition first checks
// whether the queue has a lane. If it has none, the table need not be searched, because an enqueue always creates a
// lane, so a queue without a lane has no jobs.
#define LACKS_KEY                                                                     \
    "EXISTS (SELECT FROM jobq.lane_directory d WHERE d.queue = $1) AND j.queue = $1 " \
    "AND j._round_robin_key IS DISTINCT FROM jobq.round_robin_key_of(j.concurrency_key)"

Statement find = {"SELECT FROM jobq.jobs j WHERE " LACKS_KEY " LIMIT 1", {TEXTOID}, Planning::Free};
Statement give = {
    "UPDATE jobq.jobs j SET _round_robin_key = jobq.round_robin_key_of(j.concurrency_key) WHERE " LACKS_KEY,
    {TEXTOID},
    Planning::Free};

bool any_lacks_key(const Params &queue) {
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    const bool any = read(find, queue, latest).size() > 0;
    UnregisterSnapshot(latest);
    return any;
}

}  // namespace

void give_round_robin_keys(text *queue) {
    const Params params = Params().add(PointerGetDatum(queue));
    run(lock_jobs, Params());
    if (!IsolationUsesXactSnapshot()) {
        run(give, params);
        return;
    }
    // Uses the latest snapshot, because the check must see what was committed while this transaction waited for the
    // lock. Jobs restored from a dump pass the check, because they already have their keys.
    if (any_lacks_key(params))
        ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                        errmsg("\"round_robin\" can only be enabled in a READ COMMITTED transaction"),
                        errdetail("Enabling \"round_robin\" rewrites the jobs of the queue."),
                        errhint("Run the statement outside a transaction block, or in a READ COMMITTED transaction.")));
}

}  // namespace jobq
