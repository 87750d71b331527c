// See jobs_sql.h. Each statement contains the whole key and the predicate of the index that it should use, so that the
// planner has only one reasonable choice. If the index is missing, the statement finds the same rows with another plan.
#include "compat/pg.h"

#include "compat/args.h"
#include "core/key_space.h"
#include "row/job_columns.h"
#include "row/jobs_sql.h"

namespace jobq {

namespace {

using core::ClaimKey;

// The first piece has kFirstPiece jobs, because most iterations end after a few jobs. Each later piece is kGrowth times
// as large as the previous piece, up to kLargestPiece jobs. In serializable transactions, each piece has only one job,
// because every row that is read can cause a conflict.
constexpr int kFirstPiece = 8;
constexpr int kGrowth = 4;
constexpr int kLargestPiece = 512;

#define IN_ORDER "ORDER BY j.priority, j.run_at, j.id LIMIT $"
Statement read_lane = {"SELECT " JOBQ_WHOLE_ROW R"( FROM jobq.jobs j
       WHERE j._lane = $1 AND j._ready
         AND (j.priority, j.run_at, j.id) >= ($2, $3, $4) AND (j.priority, j.run_at, j.id) <= ($5, $6, $7) )" IN_ORDER
                       "8",
                       {INT8OID, INT2OID, TIMESTAMPTZOID, INT8OID, INT2OID, TIMESTAMPTZOID, INT8OID, INT8OID}};
Statement read_round_robin_key = {"SELECT " JOBQ_WHOLE_ROW R"( FROM jobq.jobs j
       WHERE j._lane = $1 AND j._round_robin_key = $2 AND j._ready AND (j.priority, j.run_at, j.id) >= ($3, $4, $5) )" IN_ORDER
                                  "6",
                                  {INT8OID, INT8OID, INT2OID, TIMESTAMPTZOID, INT8OID, INT8OID}};
Statement read_due = {"SELECT " JOBQ_WHOLE_ROW R"( FROM jobq.jobs j
       WHERE j._due AND (j.run_at, j.id) >= ($1, $2) AND j.run_at <= $3 ORDER BY j.run_at, j.id LIMIT $4)",
                      {TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID}};
Statement read_running = {"SELECT " JOBQ_WHOLE_ROW R"( FROM jobq.jobs j
       WHERE j._rescue_indexed AND j.id >= $1 AND j.id <= $2 ORDER BY j.id LIMIT $3)",
                          {INT8OID, INT8OID, INT8OID}};
Statement find_lane = {
    R"(SELECT j._lane, j.priority, j.run_at, j.id FROM jobq.jobs j WHERE j._lane > $1 AND j._ready
       ORDER BY j._lane, j.priority, j.run_at, j.id LIMIT 1)",
    {INT8OID}};
Statement find_round_robin_key = {
    R"(SELECT j._round_robin_key FROM jobq.jobs j WHERE j._lane = $1 AND j._round_robin_key > $2 AND j._ready
       ORDER BY j._round_robin_key LIMIT 1)",
    {INT8OID, INT8OID}};
Statement find_id = {"SELECT " JOBQ_WHOLE_ROW " FROM jobq.jobs j WHERE j.id = $1 LIMIT 1", {INT8OID}};
Statement find_active = {"SELECT " JOBQ_WHOLE_ROW " FROM jobq.jobs j WHERE j._group_active = $1 LIMIT 1", {INT8OID}};
Statement find_waiting = {
    "SELECT " JOBQ_WHOLE_ROW
    " FROM jobq.jobs j WHERE j._group_waiting = $1 AND j.id >= $2 ORDER BY j._group_waiting, j.id LIMIT 1",
    {INT8OID, INT8OID}};
Statement find_group = {
    "SELECT j._group_waiting FROM jobq.jobs j WHERE j._group_waiting > $1 ORDER BY j._group_waiting LIMIT 1",
    {INT8OID}};

void add_key(Params *params, const ClaimKey &key) {
    params->add(Int16GetDatum(key.priority)).add(TimestampTzGetDatum(key.run_at)).add(Int64GetDatum(key.id));
}

// Runs the statement and calls use(row) for its first row. Returns false if the statement returned no row.
template <typename Use>
bool with_first_row(const Table &table, Statement &statement, const Params &params, Use use) {
    return with_sql_of(table.relation, [&] {
        const Rows rows = read(statement, params, table.snapshot);
        if (rows.size() > 0) use(rows[0]);
        return rows.size() > 0;
    });
}

bool find_row(Table *table, Statement &statement, const Params &params) {
    return with_first_row(*table, statement, params, [&](const Row &row) { store_row(row, table->row); });
}

// Stores the first column of the first row in *number.
bool find_number(const Table &table, Statement &statement, const Params &params, int64 *number) {
    return with_first_row(table, statement, params, [&](const Row &row) { *number = row.int64_at(1); });
}

// Copies the rows of a piece into memory that lives as long as the table is open.
void keep_piece(SqlWalk *walk, const Table &table, const Rows &rows) {
    if (walk->memory == nullptr)
        walk->memory = AllocSetContextCreate(table.row->tts_mcxt, "jobq walk", ALLOCSET_DEFAULT_SIZES);
    MemoryContextReset(walk->memory);
    MemoryContext caller = MemoryContextSwitchTo(walk->memory);
    walk->desc = rows.size() > 0 ? CreateTupleDescCopy(rows.desc()) : nullptr;
    walk->rows = static_cast<HeapTuple *>(palloc(sizeof(HeapTuple) * Max(rows.size(), 1)));
    for (uint64 i = 0; i < rows.size(); i++) walk->rows[i] = heap_copytuple(rows.tuple(i));
    MemoryContextSwitchTo(caller);
    walk->count = static_cast<int>(rows.size());
    walk->at = 0;
}

// Returns the statement that reads the next piece. Adds the parameters of the statement to *params, except for the last
// parameter, which is the size of the piece.
Statement *piece_of(const SqlWalk &walk, Params *params) {
    switch (walk.of) {
        case SqlWalk::Lane:
            params->add(Int64GetDatum(walk.lane));
            add_key(params, walk.from);
            add_key(params, walk.to);
            return &read_lane;
        case SqlWalk::RoundRobinKey:
            params->add(Int64GetDatum(walk.lane)).add(Int64GetDatum(walk.round_robin_key));
            add_key(params, walk.from);
            return &read_round_robin_key;
        case SqlWalk::Due:
            params->add(TimestampTzGetDatum(walk.from.run_at)).add(Int64GetDatum(walk.from.id));
            params->add(TimestampTzGetDatum(walk.to.run_at));
            return &read_due;
        case SqlWalk::Running:
            break;
    }
    params->add(Int64GetDatum(walk.from.id)).add(Int64GetDatum(walk.to.id));
    return &read_running;
}

void read_piece(SqlWalk *walk, const Table &table) {
    Params params;
    Statement *statement = piece_of(*walk, &params);
    params.add(Int64GetDatum(walk->piece));
    with_sql_of(table.relation, [&] { keep_piece(walk, table, read(*statement, params, table.snapshot)); });
    if (walk->count < walk->piece)
        walk->piece = 0;
    else if (!IsolationIsSerializable())
        walk->piece = Min(walk->piece * kGrowth, kLargestPiece);
}

ClaimKey key_of(SqlWalk::Of of, const Row &row) {
    const TimestampTz run_at = DatumGetTimestampTz(row.get(result_column(kJobRunAt)));
    const int64 id = row.int64_at(result_column(kJobId));
    if (of == SqlWalk::Due) return core::due_key(run_at, id);
    if (of == SqlWalk::Running) return core::running_key(id);
    return {run_at, id, DatumGetInt16(row.get(result_column(kJobPriority)))};
}

}  // namespace

void seek_by_sql(SqlWalk *walk, SqlWalk::Of of, const ClaimKey &from, const ClaimKey &to, int64 lane,
                 int64 round_robin_key) {
    walk->count = walk->at = 0;
    walk->piece = IsolationIsSerializable() ? 1 : kFirstPiece;
    walk->of = of;
    walk->lane = lane;
    walk->round_robin_key = round_robin_key;
    walk->from = from;
    walk->to = to;
}

bool next_by_sql(SqlWalk *walk, const Table &table, ClaimKey *key) {
    if (walk->at == walk->count) {
        if (walk->piece == 0) return false;
        read_piece(walk, table);
        if (walk->count == 0) return false;
    }
    *key = key_of(walk->of, {walk->rows[walk->at++], walk->desc});
    walk->from = core::next_key(*key);
    return true;
}

void fetch_by_sql(const SqlWalk &walk, Table *table) { store_row({walk.rows[walk.at - 1], walk.desc}, table->row); }

void end_walk(SqlWalk *walk) {
    if (walk->memory != nullptr) MemoryContextDelete(walk->memory);
    walk->memory = nullptr;
    walk->count = walk->at = walk->piece = 0;
}

bool next_lane_by_sql(const Table &table, int64 *lane, ClaimKey *first) {
    return with_first_row(table, find_lane, Params().add(Int64GetDatum(*lane)), [&](const Row &row) {
        *lane = row.int64_at(1);
        *first = {DatumGetTimestampTz(row.get(3)), row.int64_at(4), DatumGetInt16(row.get(2))};
    });
}

bool next_round_robin_key_by_sql(const Table &table, int64 lane, int64 *key) {
    return find_number(table, find_round_robin_key, Params().add(Int64GetDatum(lane)).add(Int64GetDatum(*key)), key);
}

bool find_job_by_sql(Table *table, int64 id) { return find_row(table, find_id, Params().add(Int64GetDatum(id))); }

bool find_active_by_sql(Table *table, int64 group) {
    return find_row(table, find_active, Params().add(Int64GetDatum(group)));
}

bool find_waiting_by_sql(Table *table, int64 group, int64 first_id) {
    return find_row(table, find_waiting, Params().add(Int64GetDatum(group)).add(Int64GetDatum(first_id)));
}

bool next_group_by_sql(const Table &table, int64 *group) {
    return find_number(table, find_group, Params().add(Int64GetDatum(*group)), group);
}

}  // namespace jobq
