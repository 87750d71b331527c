// See look.h. A claim passes over rows that others hold, so a look must too: a worker that is told of a job which
// somebody is claiming would call again and again. A look must not lock, since that writes; but a row that is locked or
// changed has the number of the transaction in its xmax, and whether that is still going on can be asked.
#include "pg/pg.h"

#include "core/claim_key.h"
#include "pg/args.h"
#include "pg/spi.h"
#include "store/directory.h"
#include "store/look.h"

extern "C" {
#include "access/transam.h"
#include "storage/procarray.h"
}

namespace jobq {

namespace {

// So many held jobs in a row, and there may well be one behind them that is not.
constexpr int kDepth = 16;

// The same order, range and condition as a claim's.
Statement find_claimable = {
    R"(SELECT h.id, h.xmax
       FROM unnest($1) AS l(lane),
            LATERAL (SELECT j.id, j.xmax FROM jobq.jobs j
                     WHERE j.lane = l.lane AND j.ready_at IS NOT NULL AND j.status = 'pending'
                     ORDER BY j.priority, j.ready_at, j.id
                     LIMIT $2) h
       LIMIT $2)",
    {INT8ARRAYOID, INT8OID}};

// A multixact looks like a transaction of that number, and may be taken for one that goes on: then the sleeper looks
// again soon.
bool is_held(const Row &row) {
    const TransactionId holder = DatumGetTransactionId(row.get(2));
    return TransactionIdIsValid(holder) && TransactionIdIsInProgress(holder);
}

}  // namespace

Outlook read_outlook(std::string_view queue, const core::WorkerFilter &filter) {
    require_known_queue(queue);
    const Queue *found = find_queue(queue);
    Outlook outlook = {found->paused, static_cast<int64 *>(palloc(sizeof(int64) * Max(found->lane_count, 1))), 0};
    for (int i = 0; i < found->lane_count; i++) {
        const Lane &lane = found->lanes[i];
        if (core::lane_matches(filter, lane.kind, lane.version, lane.required, lane.required_count))
            outlook.lanes[outlook.count++] = lane.id;
    }
    return outlook;
}

Seen look_into_lanes(const int64 *lanes, int count) {
    if (count == 0) return {Sight::Nothing, 0};
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    for (int i = 0; i < count; i++) ids[i] = Int64GetDatum(lanes[i]);
    const Rows rows =
        read(find_claimable, Params().add(array_of(ids, count, INT8OID)).add(Int64GetDatum(kDepth)), nullptr);
    for (uint64 i = 0; i < rows.size(); i++)
        if (!is_held(rows[i])) return {Sight::Claimable, rows[i].int64_at(1)};
    if (rows.size() == kDepth) return {Sight::Claimable, rows[0].int64_at(1)};
    return {rows.size() == 0 ? Sight::Nothing : Sight::Held, 0};
}

}  // namespace jobq
