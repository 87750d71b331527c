// See enqueue_keyed.h.
//
// An enqueue first looks up the job that holds the key. If a committed job holds it, that job immediately determines
// the outcome, even if its worker is about to finish it; the enqueue then counts as having happened before the job
// ended. A job whose key is free is inserted by INSERT ... ON CONFLICT DO NOTHING, which waits for a transaction that
// has just taken the key. If the INSERT does not insert a job, the holder of its key is looked up again. In REPEATABLE
// READ and above, the INSERT comes first, because the snapshot might be old.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "core/unique_key.h"
#include "enqueue/enqueue_keyed.h"
#include "enqueue/unique.h"
#include "finish/kept_keys.h"
#include "job/change_job.h"
#include "lanes/lanes.h"
#include "log/rows.h"
#include "queues/directory.h"
#include "row/jobs_table.h"
#include "row/numbers.h"
#include "row/owner.h"
#include "table/early_toast.h"

#include <algorithm>

namespace jobq {

namespace {

// Maximum number of jobs in one INSERT.
constexpr int kChunk = 1000;
// Maximum number of attempts to insert a job or find the holder of its key. If all of them fail, a user-defined trigger
// probably suppresses the rows.
constexpr int kMaxRounds = 100;

Statement lock_one = {
    R"(SELECT j.id, j.status::text FROM jobq.jobs j
       WHERE j._holds_key AND j.unique_key = $1 AND j.queue COLLATE "C" = $2 FOR NO KEY UPDATE)",
    {TEXTOID, TEXTOID}};

Statement insert = {
    R"(INSERT INTO jobq.jobs AS j (id, created_at, _lane, max_attempts, version, priority, queue, kind, payload,
                                   unique_key, _holds_key, run_at, _ready, _due, status, concurrency_key, group_key,
                                   _group_waiting, _round_robin_key, expires_at,
                                   metadata, requires, heartbeat_timeout, max_runtime, unique_for, batch_id, limits)
       SELECT u.id, $15, $16, $17, $18, u.priority, $19, $20,
              CASE WHEN $21 THEN jobq.apart(u.payload) ELSE u.payload END,
              u.unique_key, u.holds_key, u.run_at, u.ready, u.due, u.status::jobq.job_status, u.concurrency_key,
              u.group_key, u.group_waiting, u.round_robin_key, u.expires_at,
              CASE WHEN $21 THEN jobq.apart($22) ELSE $22 END, $23, $24, $25,
              CASE WHEN u.unique_key IS NOT NULL THEN $26 END, $27, $28
       FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
            AS u(id, payload, run_at, priority, unique_key, concurrency_key, group_key, status, ready, due, holds_key,
                 group_waiting, round_robin_key, expires_at)
       ON CONFLICT (unique_key, queue) WHERE _holds_key DO NOTHING
       RETURNING j.id, j.queue, j._lane, j.priority, j.run_at, j._ready, j._due, j.status::text, j._group_waiting, j.kind)",
    {INT8ARRAYOID,
     JSONBARRAYOID,
     TIMESTAMPTZARRAYOID,
     INT2ARRAYOID,
     TEXTARRAYOID,
     TEXTARRAYOID,
     TEXTARRAYOID,
     TEXTARRAYOID,
     BOOLARRAYOID,
     BOOLARRAYOID,
     BOOLARRAYOID,
     INT8ARRAYOID,
     INT8ARRAYOID,
     TIMESTAMPTZARRAYOID,
     TIMESTAMPTZOID,
     INT8OID,
     INT4OID,
     INT4OID,
     TEXTOID,
     TEXTOID,
     BOOLOID,
     JSONBOID,
     TEXTARRAYOID,
     INTERVALOID,
     INTERVALOID,
     INTERVALOID,
     INT8OID,
     TEXTARRAYOID}};

Statement remove = {"DELETE FROM jobq.jobs j WHERE j.id = ANY ($1)", {INT8ARRAYOID}};

struct Call {
    const JobSpec &spec;
    int64 lane;
    TimestampTz now;
    // No trigger sees the rows during the INSERT, so wide payloads can be moved out of the rows (table/early_toast.h).
    bool unseen;
    int64 first_id;  // the lowest new_id of the jobs of the call; PG_INT64_MAX: their ids are not known yet
};

[[noreturn]] void suppressed() {
    ereport(ERROR,
            (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
             errmsg("a trigger on table \"jobq.jobs\" suppressed a change that jobq made"),
             errhint("Make sure that no BEFORE trigger on this table returns NULL or changes the id of a job.")));
    pg_unreachable();
}

WantedKey wanted_key(const Call &call, const KeyedJob &job) {
    WantedKey key = {};
    key.queue = call.spec.queue;
    key.unique_key = job.unique_key;
    return key;
}

[[noreturn]] void refuse(const WantedKey &key) {
    key_taken(key, "Wait until the job has finished, or pass on_conflict => 'ignore' or 'replace'.");
}

void give_existing(KeyedJob *job, int64 id, bool is_over) {
    job->id = id;
    job->is_new = false;
    job->is_over = is_over;
}

// Returns the columns that on_conflict = 'replace' sets in the existing job. The earlier attempts of that job stay
// recorded in jobq.attempts.
OtherColumns replacing_columns(const Call &call, const KeyedJob &job) {
    const JobSpec &spec = call.spec;
    OtherColumns columns = {};
    columns.set(kJobPayload, job.payload)
        .set(kJobPriority, Int16GetDatum(job.priority))
        .set(kJobLane, Int64GetDatum(call.lane))
        .set(kJobKind, PointerGetDatum(spec.kind))
        .set(kJobVersion, Int32GetDatum(spec.version))
        .set_if(job.concurrency_key != nullptr, kJobConcurrencyKey, PointerGetDatum(job.concurrency_key))
        .clear(kJobWorkerId)
        .clear(kJobProgress);
    for (int i = 0; i < kOptionalAttributes; i++)
        if (i != kBatchId) columns.set_if(spec.optional[i] != Datum(0), kAttributes[i].column, spec.optional[i]);
    const std::string_view key = job.concurrency_key == nullptr ? std::string_view() : view(job.concurrency_key);
    return columns.set_if(find_queue(view(spec.queue))->round_robin, kJobRoundRobinKey,
                          Int64GetDatum(round_robin_key_of(key)));
}

// Creates the lane if it does not exist. Called only before a row is written, so that an enqueue whose key is taken
// needs no transaction ID.
void enter_lane(const JobSpec &spec) {
    ensure_lane(view(spec.queue), view(spec.kind), spec.version, required_by(spec), limits_of(spec));
}

// Writes the new attributes to the job that holds the key or, if that job has already begun to run, takes the key away
// from it. Returns false if the key is free afterward. In this case, the new job must be inserted.
bool replace_holder(const Call &call, KeyedJob *job) {
    const Rows locked =
        run(lock_one, Params().add(PointerGetDatum(job->unique_key)).add(PointerGetDatum(call.spec.queue)));
    if (locked.size() == 0) return false;
    const int64 id = locked[0].int64_at(1);
    const core::JobStatus before = status_at(locked[0], 2);
    const auto change = [&](const core::Event &event, const OtherColumns &others) {
        change_locked_jobs(
            1, [&](int) { return id; }, [&](JobsTable *jobs, int) { return try_change(jobs, event, others); });
    };
    const bool started = has_steps(id);
    if (core::resolve_conflict(core::OnConflict::Replace, before, started) == core::Conflict::TakeKey) {
        OtherColumns lost = {};
        // A job that is running or has saved steps loses the key permanently.
        if (before == core::JobStatus::Processing || started) lost.clear(kJobUniqueKey).clear(kJobUniqueFor);
        change({core::EventKind::KeyTaken, call.now}, lost);
        return false;
    }
    enter_lane(call.spec);
    core::Event event = {core::EventKind::Replaced, call.now};
    event.run_at = job->run_at;
    event.max_attempts = call.spec.max_attempts;
    event.expires_at = expiry_of(call.spec, job->run_at);
    change(event, replacing_columns(call, *job));
    give_existing(job, id, false);
    return true;
}

// Handles a new job whose key is held by another job. Returns false if the key turns out to be free.
bool settle_conflict(const Call &call, KeyedJob *job, const WantedKey &key) {
    const core::OnConflict choice = call.spec.on_conflict;
    // If the holder has finished, it cannot be replaced.
    if (key.until != 0) {
        if (choice == core::OnConflict::Error) refuse(key);
        give_existing(job, key.holder, true);
        return true;
    }
    // An expired holder is canceled. Otherwise, the new job would be ignored in favor of a job that will not run. A job
    // that this call itself has inserted counts as the holder even if it has expired. Otherwise, the call would start
    // over, because it must take keys in order, and would insert the same job again.
    if (key.expired && key.holder < call.first_id) {
        expire_holder(key, call.now);
        return false;
    }
    switch (core::resolve_conflict(choice, key.status)) {
        case core::Conflict::Refuse:
            refuse(key);
        case core::Conflict::Existing:
            give_existing(job, key.holder, false);
            return true;
        case core::Conflict::Change:
        case core::Conflict::TakeKey:
            break;
    }
    return replace_holder(call, job);
}

// Handles the jobs whose keys are taken. Jobs that are not settled by this call must still be inserted. Moves these
// jobs to the front of `jobs` without changing their order, and returns their number. If `look` is false, looks up only
// finished holders.
int settle_conflicts(const Call &call, KeyedJob **jobs, int count, bool look) {
    auto *keys = static_cast<WantedKey *>(palloc(sizeof(WantedKey) * count));
    // Jobs without a key come first in the array.
    int first = 0;
    while (first < count && jobs[first]->unique_key == nullptr) first++;
    const int keyed = count - first;
    if (keyed == 0) return count;
    for (int i = 0; i < keyed; i++) keys[i] = wanted_key(call, *jobs[first + i]);
    if (look)
        find_holders(keys, keyed, call.now);
    else
        find_kept(keys, keyed, call.now);
    int left = first;
    for (int i = 0; i < keyed; i++) {
        KeyedJob *job = jobs[first + i];
        if (keys[i].holder == 0 || !settle_conflict(call, job, keys[i])) jobs[left++] = job;
    }
    return left;
}

// Types of the columns that differ between the rows of an INSERT, in the order of the statement's parameters.
constexpr Oid kInserted[] = {INT8OID, JSONBOID, TIMESTAMPTZOID, INT2OID, TEXTOID, TEXTOID, TEXTOID,
                             TEXTOID, BOOLOID,  BOOLOID,        BOOLOID, INT8OID, INT8OID, TIMESTAMPTZOID};

void add_text(ArrayColumn *column, const text *value) { column->add_if(value != nullptr, PointerGetDatum(value)); }
void add_number(ArrayColumn *column, const core::OptInt64 &value) {
    column->add_if(value.has_value(), Int64GetDatum(value.value_or(0)));
}

// Adds the job's values to the columns, in the order of kInserted.
void add_row(ArrayColumn *column, const Call &call, const KeyedJob &job, bool round_robin) {
    const core::Life life = life_of_new_job(call.spec, job.run_at, job.unique_key, job.group_key, call.now);
    const std::string_view key = job.concurrency_key == nullptr ? std::string_view() : view(job.concurrency_key);
    column++->add(Int64GetDatum(job.new_id));
    column++->add(job.payload);
    column++->add(TimestampTzGetDatum(job.run_at));
    column++->add(Int16GetDatum(job.priority));
    add_text(column++, job.unique_key);
    add_text(column++, job.concurrency_key);
    add_text(column++, job.group_key);
    column++->add(CStringGetTextDatum(core::status_name(life.status)));
    column++->add_if(life.ready, BoolGetDatum(true));
    column++->add_if(life.due, BoolGetDatum(true));
    column++->add_if(life.holds_key, BoolGetDatum(true));
    add_number(column++, life.group_waiting);
    column++->add_if(round_robin, Int64GetDatum(round_robin_key_of(key)));
    add_number(column, life.expires_at);
}

Rows run_insert(const Call &call, KeyedJob *const *jobs, int count) {
    const JobSpec &spec = call.spec;
    enter_lane(spec);
    const bool round_robin = find_queue(view(spec.queue))->round_robin;
    auto *columns = allocate_array<ArrayColumn>(lengthof(kInserted));
    for (size_t c = 0; c < lengthof(kInserted); c++) columns[c] = ArrayColumn(count);
    for (int i = 0; i < count; i++) {
        if (jobs[i]->new_id == 0) jobs[i]->new_id = next_job_id();
        add_row(columns, call, *jobs[i], round_robin);
    }
    Params params;
    for (size_t c = 0; c < lengthof(kInserted); c++) params.add(columns[c].array(kInserted[c]));
    params.add(TimestampTzGetDatum(call.now))
        .add(Int64GetDatum(call.lane))
        .add(Int32GetDatum(spec.max_attempts))
        .add(Int32GetDatum(spec.version))
        .add(PointerGetDatum(spec.queue))
        .add(PointerGetDatum(spec.kind))
        .add(BoolGetDatum(call.unseen));
    for (const Datum value : spec.optional) params.add_if(value != Datum(0), value);
    return with_values_apart(call.unseen, [&] { return run(insert, params); });
}

// Deletes the inserted jobs whose keys are still held by finished jobs, and sets the corresponding elements of `stays`
// to false. A job that keeps its key after finishing might have finished while the INSERT waited. The snapshot of the
// INSERT does not show this, so this function checks under a later snapshot.
void take_back_kept(const Call &call, KeyedJob **jobs, bool *stays, int count) {
    if (count == 0 || !any_kept_key()) return;
    auto *keys = static_cast<WantedKey *>(palloc(sizeof(WantedKey) * count));
    auto *positions = static_cast<int *>(palloc(sizeof(int) * count));
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    int keyed = 0, removed = 0;
    for (int i = 0; i < count; i++) {
        if (jobs[i]->unique_key == nullptr) continue;
        keys[keyed] = wanted_key(call, *jobs[i]);
        positions[keyed++] = i;
    }
    find_kept_by_latest(keys, keyed, call.now);
    for (int k = 0; k < keyed; k++) {
        if (keys[k].holder == 0) continue;
        if (IsolationUsesXactSnapshot()) kept_since_snapshot();
        if (call.spec.on_conflict == core::OnConflict::Error) refuse(keys[k]);
        KeyedJob *job = jobs[positions[k]];
        stays[positions[k]] = false;
        ids[removed++] = Int64GetDatum(job->new_id);
        give_existing(job, keys[k].holder, true);
    }
    if (removed == 0) return;
    run(remove, Params().add(array_of(ids, removed, INT8OID)));
    require_changed(affected(), removed);
}

// Logs the inserted version of the row, because a user-defined trigger might have changed the row.
void log_inserted_row(const Row &row) {
    const auto flag = [&](int column) { return !row.is_null(column) && DatumGetBool(row.get(column)); };
    JobState job = {};
    job.id = row.int64_at(1);
    job.queue = row.text_at(2);
    job.kind = row.text_at(10);
    job.lane = row.int64_at(3);
    job.priority = DatumGetInt16(row.get(4));
    job.life.run_at = row.int64_at(5);
    job.life.ready = flag(6);
    job.life.due = flag(7);
    job.life.status = status_at(row, 8);
    if (!row.is_null(9)) job.life.group_waiting = row.int64_at(9);
    log_new_job(job, true);
}

// Inserts the jobs whose keys are free. Moves the other jobs to the front of `jobs` without changing their order, and
// returns their number.
int insert_free(const Call &call, KeyedJob **jobs, int count) {
    const Rows rows = run_insert(call, jobs, count);
    auto **inserted = static_cast<KeyedJob **>(palloc(sizeof(void *) * count));
    auto *stays = static_cast<bool *>(palloc(sizeof(bool) * count));
    // The returned rows are in the order of the jobs.
    int done = 0, left = 0;
    for (int i = 0; i < count; i++) {
        if (static_cast<uint64>(done) < rows.size() && rows[done].int64_at(1) == jobs[i]->new_id) {
            jobs[i]->id = jobs[i]->new_id;
            jobs[i]->is_new = true;
            jobs[i]->is_over = false;
            stays[done] = true;
            inserted[done++] = jobs[i];
        } else {
            jobs[left++] = jobs[i];
        }
    }
    if (static_cast<uint64>(done) != rows.size()) suppressed();
    take_back_kept(call, inserted, stays, done);
    for (int i = 0; i < done; i++)
        if (stays[i]) log_inserted_row(rows[i]);
    return left;
}

// Inserts the jobs or finds the holders of their keys. Returns false if the INSERT found a key taken, but the key
// became free before its holder could be looked up. In this case, the caller must roll back and start over, because the
// INSERT has already taken later keys, and keys must be taken in order.
bool enqueue_in_order(const Call &call, KeyedJob **jobs, int count) {
    bool look = !IsolationUsesXactSnapshot();
    bool inserted = false;
    for (int round = 0;; round++) {
        CHECK_FOR_INTERRUPTS();
        if (round == kMaxRounds) suppressed();
        count = settle_conflicts(call, jobs, count, look);
        if (count == 0) return true;
        if (inserted) return false;
        look = true;
        const int left = insert_free(call, jobs, count);
        if (left == 0) return true;
        inserted = left < count;
        count = left;
    }
}

void enqueue_chunk(const Call &call, KeyedJob **jobs, int count) {
    if (count == 1) {
        enqueue_in_order(call, jobs, count);
        return;
    }
    auto **left = static_cast<KeyedJob **>(palloc(sizeof(void *) * count));
    for (int round = 0;; round++) {
        if (round == kMaxRounds) suppressed();
        memcpy(left, jobs, sizeof(void *) * count);
        if (keep_if([&] { return enqueue_in_order(call, left, count); })) return;
    }
}

bool comes_first(const KeyedJob *a, const KeyedJob *b) {
    if (a->unique_key == nullptr || b->unique_key == nullptr) {
        if (a->unique_key == b->unique_key) return a < b;
        return a->unique_key == nullptr;
    }
    const std::string_view key_a = view(a->unique_key), key_b = view(b->unique_key);
    return key_a == key_b ? a < b : core::key_before({}, key_a, {}, key_b);
}

// Fills in the defaults of columns that the INSERT names, because the server applies defaults only to other columns.
JobSpec with_defaults(JobSpec spec, Table *table) {
    require_known_defaults(table->relation, table->attached);
    if (!table->attached.has_defaults) return spec;
    for (int i = 0; i < kOptionalAttributes; i++) {
        if (spec.optional[i] != Datum(0)) continue;
        bool none;
        const Datum by_default = column_default(table, kAttributes[i].column, &none);
        if (!none) spec.optional[i] = by_default;
    }
    return spec;
}

}  // namespace

bool has_steps(int64 id) {
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    const bool has = find_job(&jobs, id) && state_of(jobs).life.steps.has_value();
    close_jobs(&jobs);
    return has;
}

void enqueue_keyed(const JobSpec &spec, KeyedJob *jobs, int count, TimestampTz now) {
    // Opens the table to lock it until the end of the transaction. The lock protects the setting round_robin, which is
    // read below (claim/round_robin_setting.h).
    JobsTable table;
    open_jobs(&table);
    require_no_rules(table.table.relation, table.table.attached);
    require_job_index(JobIndex::Unique);
    const JobSpec filled = with_defaults(spec, &table.table);
    const bool unseen = !is_seen_at_insert(table.table);
    close_jobs(&table);
    int64 first_id = PG_INT64_MAX;
    for (int i = 0; i < count; i++)
        if (jobs[i].new_id != 0) first_id = Min(first_id, jobs[i].new_id);
    const Call call = {filled,
                       lane_id(view(spec.queue), view(spec.kind), spec.version, required_by(spec), limits_of(spec)),
                       now, unseen, first_id};
    auto **order = static_cast<KeyedJob **>(palloc_extended(sizeof(void *) * count, MCXT_ALLOC_HUGE));
    for (int i = 0; i < count; i++) order[i] = &jobs[i];
    std::sort(order, order + count, comes_first);
    as_owner([&] {
        // Each chunk has a separate with_spi(), which frees the memory of the chunk.
        for (int first = 0; first < count; first += kChunk)
            with_spi([&] { enqueue_chunk(call, order + first, Min(kChunk, count - first)); });
    });
    pfree(order);
}

}  // namespace jobq
