// See prune_batches() in settle.h.
#include "compat/pg.h"

#include "batches/settle.h"
#include "compat/args.h"
#include "compat/spi.h"
#include "log/rows.h"
#include "table/table_in_use.h"

namespace jobq {

namespace {

// Replaces rows that have not been added up yet, and the earlier sum of their batch, with a new sum. Rows of batches
// that do not exist are deleted. Returns the number of rows that had not been added up.
Statement fold_counts = {
    R"(WITH added AS MATERIALIZED (
           SELECT c.ctid AS at, c.batch_id FROM jobq.batch_counts c WHERE NOT c._folded
           ORDER BY c.batch_id LIMIT $1 FOR UPDATE SKIP LOCKED),
       sums AS MATERIALIZED (
           SELECT c.ctid AS at FROM jobq.batch_counts c
           WHERE c._folded AND c.batch_id = ANY (ARRAY (SELECT a.batch_id FROM added a)) FOR UPDATE SKIP LOCKED),
       gone AS (
           DELETE FROM jobq.batch_counts c
           WHERE c.ctid = ANY (ARRAY (SELECT a.at FROM added a UNION ALL SELECT s.at FROM sums s))
           RETURNING c.batch_id, c.completed, c.failed, c.cancelled),
       folded AS (
           INSERT INTO jobq.batch_counts (batch_id, completed, failed, cancelled, _folded)
           SELECT g.batch_id, sum(g.completed), sum(g.failed), sum(g.cancelled), true FROM gone g
           WHERE EXISTS (SELECT FROM jobq.batch_settings b WHERE b.id = g.batch_id) GROUP BY g.batch_id)
       SELECT count(*) FROM added)",
    {INT8OID}};

Statement lock_finished = {
    R"(SELECT b.id, EXISTS (SELECT FROM jobq.jobs j WHERE j.batch_id = b.id) FROM jobq.batch_settings b
       WHERE b.finished_at IS NOT NULL AND b._look_at <= $1
       ORDER BY b._look_at LIMIT $2 FOR UPDATE OF b SKIP LOCKED)",
    {TIMESTAMPTZOID, INT8OID}};
Statement look_later = {"UPDATE jobq.batch_settings b SET _look_at = $2 + interval '1 hour' WHERE b.id = ANY ($1)",
                        {INT8ARRAYOID, TIMESTAMPTZOID}};
Statement delete_batches = {"DELETE FROM jobq.batch_settings b WHERE b.id = ANY ($1)", {INT8ARRAYOID}};
Statement delete_counts = {"DELETE FROM jobq.batch_counts c WHERE c.batch_id = ANY ($1)", {INT8ARRAYOID}};

// Returns whether more rows may have to be added up.
bool fold(int64 most) { return run(fold_counts, Params().add(Int64GetDatum(most)))[0].int64_at(1) == most; }

// Returns whether more batches may have to be deleted.
bool delete_finished(TimestampTz now, int batch) {
    const Rows found = run(lock_finished, Params().add(TimestampTzGetDatum(now)).add(Int64GetDatum(batch)));
    if (found.size() == 0) return false;
    ArrayColumn left(static_cast<int>(found.size())), gone(static_cast<int>(found.size()));
    for (uint64 i = 0; i < found.size(); i++) (found[i].bool_at(2) ? left : gone).add(found[i].get(1));
    if (left.count > 0) run(look_later, Params().add(left.array(INT8OID)).add(TimestampTzGetDatum(now)));
    if (gone.count > 0) {
        run(delete_batches, Params().add(gone.array(INT8OID)));
        run(delete_counts, Params().add(gone.array(INT8OID)));
    }
    return found.size() == static_cast<uint64>(batch);
}

}  // namespace

bool prune_batches(TimestampTz now, int batch) {
    const bool more_counts = is_in_use("batch_counts") && fold(int64{10} * batch);
    return (is_in_use("batch_settings") && delete_finished(now, batch)) || more_counts;
}

}  // namespace jobq
