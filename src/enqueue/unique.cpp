// See unique.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "enqueue/unique.h"
#include "finish/ending.h"
#include "finish/kept_keys.h"
#include "log/rows.h"

namespace jobq {

namespace {

// Selects the unfinished holders of the keys. LIMIT 1 makes each lookup use the index, regardless of the statistics.
Statement find_unfinished = {
    "SELECT u.n, f.id, f.status, f.expired FROM unnest($1, $2) WITH ORDINALITY AS u(queue, unique_key, n), "
    "LATERAL (SELECT j.id, j.status::text, coalesce(j.expires_at <= $3, false) FROM jobq.jobs j "
    "WHERE j._holds_key AND j.unique_key = u.unique_key AND j.queue COLLATE \"C\" = u.queue LIMIT 1) "
    "f(id, status, expired)",
    {TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID}};

// Selects the finished holders of the keys. "+ interval '0'" keeps the planner from using the index on kept_until,
// which only helps to find expired keys.
Statement read_kept = {
    R"(SELECT u.n, f.job_id, f.kept_until
       FROM unnest($1, $2, $3) WITH ORDINALITY AS u(queue, unique_key, own, n),
            LATERAL (SELECT k.job_id, k.kept_until FROM jobq.kept_keys k
                     WHERE k.unique_key = u.unique_key AND k.queue = u.queue AND k.kept_until + interval '0' > $4
                       AND k.job_id <> u.own
                     ORDER BY k.kept_until + interval '0' DESC LIMIT 1) f)",
    {TEXTARRAYOID, TEXTARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID}};

Statement lock_expired = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j._holds_key AND j.unique_key = $1 AND j.queue COLLATE "C" = $2 AND j.expires_at <= $3
       FOR NO KEY UPDATE)",
    {TEXTOID, TEXTOID, TIMESTAMPTZOID}};

struct KeyArrays {
    Datum queues, keys, own;
};

KeyArrays arrays_of(const WantedKey *keys, int count) {
    auto *queues = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *names = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *own = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    for (int i = 0; i < count; i++) {
        queues[i] = PointerGetDatum(keys[i].queue);
        names[i] = PointerGetDatum(keys[i].unique_key);
        own[i] = Int64GetDatum(keys[i].own);
    }
    return {array_of(queues, count, TEXTOID), array_of(names, count, TEXTOID), array_of(own, count, INT8OID)};
}

void find_unfinished_holders(WantedKey *keys, int count, TimestampTz now) {
    const KeyArrays arrays = arrays_of(keys, count);
    const Rows rows = run(find_unfinished, Params().add(arrays.queues).add(arrays.keys).add(TimestampTzGetDatum(now)));
    for (uint64 i = 0; i < rows.size(); i++) {
        WantedKey *key = &keys[rows[i].int64_at(1) - 1];
        key->holder = rows[i].int64_at(2);
        key->status = status_at(rows[i], 3);
        key->expired = rows[i].bool_at(4);
    }
}

// Looks up the finished jobs that keep one of the keys, and stores them as holders of the keys that have no unfinished
// holder. If `snapshot` is nullptr, uses a fresh snapshot or, in REPEATABLE READ and above, the transaction's snapshot.
void find_kept_keys(WantedKey *keys, int count, TimestampTz now, Snapshot snapshot) {
    if (count == 0 || !any_kept_key()) return;
    const KeyArrays arrays = arrays_of(keys, count);
    const Params params = Params().add(arrays.queues).add(arrays.keys).add(arrays.own).add(TimestampTzGetDatum(now));
    const Rows rows = snapshot != nullptr ? read(read_kept, params, snapshot) : run(read_kept, params);
    for (uint64 i = 0; i < rows.size(); i++) {
        WantedKey *key = &keys[rows[i].int64_at(1) - 1];
        if (key->holder != 0) continue;
        key->holder = rows[i].int64_at(2);
        key->until = DatumGetTimestampTz(rows[i].get(3));
    }
}

}  // namespace

void find_holders(WantedKey *keys, int count, TimestampTz now) {
    if (count == 0) return;
    find_unfinished_holders(keys, count, now);
    find_kept_keys(keys, count, now, nullptr);
}

void find_kept(WantedKey *keys, int count, TimestampTz now) { find_kept_keys(keys, count, now, nullptr); }

void find_kept_by_latest(WantedKey *keys, int count, TimestampTz now) {
    Snapshot latest = RegisterSnapshot(GetLatestSnapshot());
    find_kept_keys(keys, count, now, latest);
    UnregisterSnapshot(latest);
}

void expire_holder(const WantedKey &key, TimestampTz now) {
    const Rows locked = run(
        lock_expired,
        Params().add(PointerGetDatum(key.unique_key)).add(PointerGetDatum(key.queue)).add(TimestampTzGetDatum(now)));
    expire_jobs(first_column(locked), static_cast<int>(locked.size()), now);
}

void kept_since_snapshot() {
    ereport(ERROR,
            (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE), errmsg("could not serialize access due to concurrent update"),
             errdetail("A job with the same unique key has finished since the transaction's snapshot was taken."),
             errhint("Retry the transaction.")));
    pg_unreachable();
}

void key_taken(const WantedKey &key, const char *hint) {
    const std::string_view queue = view(key.queue), name = view(key.unique_key);
    ereport(
        ERROR,
        (errcode(ERRCODE_UNIQUE_VIOLATION),
         errmsg("unique key \"%.*s\" of queue \"%.*s\" is taken by job %lld", static_cast<int>(name.size()),
                name.data(), static_cast<int>(queue.size()), queue.data(), static_cast<long long>(key.holder)),
         key.until == 0 ? 0
                        : errdetail("The job has finished, but keeps its key until %s.", timestamptz_to_str(key.until)),
         errhint("%s", key.until == 0 ? hint : "Wait until then, or delete the key's row from jobq.kept_keys."),
         err_generic_string(PG_DIAG_CONSTRAINT_NAME, "jobs_unique_idx")));
    pg_unreachable();
}

void refuse_kept_key(int64 job, std::string_view queue, std::string_view unique_key) {
    if (!any_kept_key()) return;
    const TimestampTz now = GetCurrentTimestamp();
    WantedKey key = {};
    key.queue = make_text(queue);
    key.unique_key = make_text(unique_key);
    key.own = job;
    find_kept(&key, 1, now);
    if (key.holder == 0) {
        // The job that keeps the key might have finished while this statement waited. In this case, the snapshot of the
        // statement does not show the kept key.
        find_kept_by_latest(&key, 1, now);
        if (key.holder != 0 && IsolationUsesXactSnapshot()) kept_since_snapshot();
    }
    if (key.holder != 0) key_taken(key, "");
}

}  // namespace jobq
