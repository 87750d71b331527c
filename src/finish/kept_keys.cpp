// See kept_keys.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "core/search_start.h"
#include "core/unique_key.h"
#include "finish/kept_keys.h"
#include "table/table_in_use.h"

namespace jobq {

namespace {

Statement keep = {
    R"(INSERT INTO jobq.kept_keys (queue, unique_key, job_id, kept_until)
       SELECT u.queue, u.unique_key, u.job_id, u.kept_until
       FROM unnest($1, $2, $3, $4) AS u(queue, unique_key, job_id, kept_until))",
    {TEXTARRAYOID, TEXTARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID}};

// Deletes expired keys, but skips rows that other sessions have locked.
Statement prune = {
    R"(DELETE FROM jobq.kept_keys k
       WHERE k.ctid = ANY (ARRAY (SELECT d.ctid FROM jobq.kept_keys d WHERE d.kept_until <= $1 AND d.kept_until >= $3
                                  ORDER BY d.kept_until LIMIT $2 FOR UPDATE SKIP LOCKED)))",
    {TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID}};
Statement find_first = {
    "SELECT k.kept_until FROM jobq.kept_keys k WHERE k.kept_until >= $1 ORDER BY k.kept_until LIMIT 1",
    {TIMESTAMPTZOID}};

// Deletes the kept keys of these jobs. Uses "= ANY (ARRAY[...])" so that each key is looked up separately, as explained
// at find_ended in held_jobs.cpp.
Statement drop_own = {
    R"(DELETE FROM jobq.kept_keys k
       WHERE k.ctid = ANY (ARRAY (SELECT d.ctid
                                  FROM unnest($1) AS u(id), jobq.jobs j, jobq.kept_keys d
                                  WHERE j.id = ANY (ARRAY[u.id]) AND d.unique_key = j.unique_key COLLATE "C"
                                    AND d.job_id = j.id
                                  FOR UPDATE OF d SKIP LOCKED)))",
    {INT8ARRAYOID}};

Statement drop_all = {"DELETE FROM jobq.kept_keys", {}, Planning::Free};

TimestampTz kept_until(TimestampTz now, const Interval *unique_for) {
    return core::kept_until(now, span_of(unique_for));
}

}  // namespace

bool keeps_key(const JobsTable &jobs) { return job_has(jobs, kJobUniqueFor) && job_has(jobs, kJobUniqueKey); }

KeptKey kept_key(const JobsTable &jobs, TimestampTz now) {
    return {make_text(view(DatumGetTextPP(job_value(jobs, kJobQueue)))),
            make_text(view(DatumGetTextPP(job_value(jobs, kJobUniqueKey)))), DatumGetInt64(job_value(jobs, kJobId)),
            kept_until(now, DatumGetIntervalP(job_value(jobs, kJobUniqueFor)))};
}

void keep_keys(const KeptKey *keys, int count) {
    if (count == 0) return;
    constexpr int kColumns = 4;
    constexpr Oid types[kColumns] = {TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID};
    Datum *columns[kColumns];
    for (Datum *&column : columns) column = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    for (int i = 0; i < count; i++) {
        columns[0][i] = PointerGetDatum(keys[i].queue);
        columns[1][i] = PointerGetDatum(keys[i].unique_key);
        columns[2][i] = Int64GetDatum(keys[i].job_id);
        columns[3][i] = TimestampTzGetDatum(keys[i].until);
    }
    Params params;
    for (int c = 0; c < kColumns; c++) params.add(array_of(columns[c], count, types[c]));
    run(keep, params);
}

void drop_own_kept_keys(Datum *ids, int count) {
    if (count > 0 && any_kept_key()) run(drop_own, Params().add(array_of(ids, count, INT8OID)));
}

void drop_all_kept_keys() {
    if (any_kept_key()) run(drop_all, Params());
}

bool any_kept_key() { return is_in_use("kept_keys"); }

bool prune_kept_keys(TimestampTz now, int batch) {
    static core::SearchStart start(500);
    if (!any_kept_key()) return false;
    const TimestampTz begun = GetCurrentTimestamp();
    const TimestampTz from = start.begin(MyBackendType == B_BG_WORKER, begun);
    const Rows first = read(find_first, Params().add(TimestampTzGetDatum(from)));
    // If no key is found, the next search begins with keys that expire at the current time, because keys that are added
    // from now on usually expire later.
    const TimestampTz first_until = first.size() == 0 ? begun : DatumGetTimestampTz(first[0].get(1));
    start.end(first_until, GetCurrentTimestamp());
    if (first.size() == 0 || first_until > now) return false;
    run(prune, Params().add(TimestampTzGetDatum(now)).add(Int64GetDatum(batch)).add(TimestampTzGetDatum(first_until)));
    return affected() == batch;
}

}  // namespace jobq
