// See limit_settings.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "job/change_job.h"
#include "leases/young_leases.h"
#include "limits/limit_settings.h"
#include "limits/limit_slots.h"
#include "limits/limiter.h"
#include "log/transaction_log.h"
#include "queues/directory.h"
#include "row/jobs_table.h"
#include "row/numbers.h"

#include <algorithm>

namespace jobq {

namespace {

// Inserts or updates a limit. Resets highest_slot to its default, because running jobs might hold slots with any number
// until a tick has checked them.
Statement set = {
    R"(INSERT INTO jobq.limit_settings AS l (queue, key, by_kind, max_running, rate, per) VALUES ($1, $2, $3, $4, $5, $6)
       ON CONFLICT (queue, key, by_kind) DO UPDATE SET max_running = $4, rate = $5, per = $6, highest_slot = DEFAULT)",
    {TEXTOID, TEXTOID, BOOLOID, INT4OID, INT4OID, INTERVALOID},
    Planning::Free};
Statement remove = {"DELETE FROM jobq.limit_settings l WHERE l.queue = $1 AND l.key = $2 AND l.by_kind = $3",
                    {TEXTOID, TEXTOID, BOOLOID},
                    Planning::Free};

// Resets highest_slot of the limit "*" when the limit of a key or kind is removed. The limit "*" then applies to the
// jobs of this key or kind, which might hold slots with any number, or no slot at all.
Statement distrust_each_key = {
    "UPDATE jobq.limit_settings l SET highest_slot = DEFAULT WHERE l.queue = $1 AND l.key = '*' AND l.by_kind = $2",
    {TEXTOID, BOOLOID},
    Planning::Free};

Statement ask = {"INSERT INTO jobq.unslotted DEFAULT VALUES", {}, Planning::Free};
Statement asked = {"SELECT 1 FROM jobq.unslotted LIMIT 1", {}, Planning::Free};
// Selects the requests in jobq.unslotted that have no valid before_xid and whose transactions have released their
// locks. Once the transaction of a request has released its locks, every session can learn that the settings have
// changed. A before_xid above the next transaction ID is not valid, because it comes from another cluster, for example
// through logical replication.
Statement find_committed = {
    R"(SELECT u.ctid FROM jobq.unslotted u
       WHERE (u.before_xid IS NULL OR u.before_xid > $1)
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.transactionid = u.asked_xid::xid)
       FOR UPDATE SKIP LOCKED)",
    {XID8OID},
    Planning::Free};
Statement date_request = {
    "UPDATE jobq.unslotted u SET before_xid = $2 WHERE u.ctid = $1", {TIDOID, XID8OID}, Planning::Free};
Statement find_settled = {
    R"(SELECT u.ctid FROM jobq.unslotted u
       WHERE u.before_xid <= pg_snapshot_xmin(pg_current_snapshot()) FOR UPDATE SKIP LOCKED)",
    {},
    Planning::Free};
Statement end_request = {"DELETE FROM jobq.unslotted u WHERE u.ctid = $1", {TIDOID}, Planning::Free};
// The statements about highest_slot are the same for both tables of limits.
enum LimitTable { kOfQueues, kNamed, kLimitTables };
#define RAISED "WHERE l.max_running IS NOT NULL AND l.highest_slot > l.max_running FOR NO KEY UPDATE SKIP LOCKED"
Statement find_raised = {"SELECT l.ctid FROM jobq.limit_settings l " RAISED, {}, Planning::Free};
Statement find_raised_named = {"SELECT l.ctid, l.name FROM jobq.named_limit_settings l " RAISED, {}, Planning::Free};
// Resets highest_slot of a limit if no job holds a slot with a number above max_running. The caller must lock the row
// of the limit before the snapshot is taken. Otherwise, the UPDATE could wait for a concurrent change of the limit and
// then compare the new limit with old versions of the jobs and of the requests in jobq.unslotted. For a limit of a key
// or kind, the UPDATE checks the jobs of all keys or kinds of the queue, so a job to which the limit does not apply can
// delay the reset, which is harmless.
Statement lower_highest = {
    R"(UPDATE jobq.limit_settings l SET highest_slot = 0
       WHERE l.ctid = $1
         AND NOT EXISTS (SELECT FROM jobq.unslotted)
         AND NOT EXISTS (SELECT FROM jobq.jobs j
                         WHERE l.key = '' AND NOT l.by_kind AND j._queue_slot IS NOT NULL AND j.queue = l.queue
                           AND j._queue_slot & 1048575 > l.max_running)
         AND NOT EXISTS (SELECT FROM jobq.jobs j
                         WHERE l.key <> '' AND NOT l.by_kind AND j._key_slot IS NOT NULL AND j.queue = l.queue
                           AND j._key_slot & 1048575 > l.max_running)
         AND NOT EXISTS (SELECT FROM jobq.jobs j
                         WHERE l.by_kind AND j._kind_slot IS NOT NULL AND j.queue = l.queue
                           AND j._kind_slot & 1048575 > l.max_running))",
    {TIDOID},
    Planning::Free};
// Does the same for a named limit, whose number is $2.
Statement lower_highest_named = {
    R"(UPDATE jobq.named_limit_settings l SET highest_slot = 0
       WHERE l.ctid = $1
         AND NOT EXISTS (SELECT FROM jobq.unslotted)
         AND NOT EXISTS (SELECT FROM jobq.jobs j WHERE j._limit_slot1 > $2 + l.max_running AND j._limit_slot1 < $2 + 1048576)
         AND NOT EXISTS (SELECT FROM jobq.jobs j WHERE j._limit_slot2 > $2 + l.max_running AND j._limit_slot2 < $2 + 1048576))",
    {TIDOID, INT8OID},
    Planning::Free};
#define MISSING "WHERE l.highest_slot = $1 FOR NO KEY UPDATE SKIP LOCKED"
Statement lock_missing[kLimitTables] = {
    {"SELECT l.ctid FROM jobq.limit_settings l " MISSING, {INT4OID}, Planning::Free},
    {"SELECT l.ctid FROM jobq.named_limit_settings l " MISSING, {INT4OID}, Planning::Free}};
Statement end_missing[kLimitTables] = {
    {"UPDATE jobq.limit_settings l SET highest_slot = DEFAULT WHERE l.ctid = $1", {TIDOID}, Planning::Free},
    {"UPDATE jobq.named_limit_settings l SET highest_slot = DEFAULT WHERE l.ctid = $1", {TIDOID}, Planning::Free}};
// Raises highest_slot of one limit. Does nothing if another transaction is changing the limit.
Statement raise_highest = {
    R"(UPDATE jobq.limit_settings l SET highest_slot = $3
       WHERE l.ctid = ANY (ARRAY (SELECT s.ctid FROM jobq.limit_settings s
                                  WHERE s.queue = $1 AND s.key = $2 AND s.by_kind = $4 AND s.highest_slot < $3
                                  FOR NO KEY UPDATE SKIP LOCKED)))",
    {TEXTOID, TEXTOID, INT4OID, BOOLOID},
    Planning::Free};

Statement raise_highest_named = {
    R"(UPDATE jobq.named_limit_settings l SET highest_slot = $2
       WHERE l.ctid = ANY (ARRAY (SELECT s.ctid FROM jobq.named_limit_settings s
                                  WHERE s.name = $1 AND s.highest_slot < $2 FOR NO KEY UPDATE SKIP LOCKED)))",
    {TEXTOID, INT4OID},
    Planning::Free};

// Raises highest_slot of all limits. Updates the limits "*" even if their highest_slot does not change, so that the
// UPDATE conflicts with a concurrent tick that is lowering highest_slot and cannot yet see that the limit applies to
// another key or kind.
Statement distrust = {"UPDATE jobq.limit_settings l SET highest_slot = $1 WHERE l.highest_slot < $1 OR l.key = '*'",
                      {INT4OID},
                      Planning::Free};
Statement distrust_named = {
    "UPDATE jobq.named_limit_settings l SET highest_slot = $1 WHERE l.highest_slot < $1", {INT4OID}, Planning::Free};

// Inserts or updates a named limit, unless it exists and one of its queues is not among the queues $6 of the caller.
Statement set_named = {
    R"(INSERT INTO jobq.named_limit_settings AS l (name, queues, max_running, rate, per) VALUES ($1, $2, $3, $4, $5)
       ON CONFLICT (name) DO UPDATE SET queues = $2, max_running = $3, rate = $4, per = $5, highest_slot = DEFAULT
       WHERE $6 IS NULL OR l.queues <@ $6)",
    {TEXTOID, TEXTARRAYOID, INT4OID, INT4OID, INTERVALOID, TEXTARRAYOID},
    Planning::Free};
Statement remove_named = {
    "DELETE FROM jobq.named_limit_settings l WHERE l.name = $1 AND ($2 IS NULL OR l.queues <@ $2)",
    {TEXTOID, TEXTARRAYOID},
    Planning::Free};
Statement read_members = {
    "SELECT l.queues FROM jobq.named_limit_settings l WHERE l.name = $1", {TEXTOID}, Planning::Free};
Statement is_missing = {
    R"(SELECT FROM jobq.named_limit_settings l
       WHERE l.name = $1 AND l.max_running IS NOT NULL AND l.highest_slot >= $2)",
    {TEXTOID, INT4OID},
    Planning::Free};

#define SLOTS "BETWEEN $1 AND $1 + 1048575"
Statement count_held[kSlotsOf] = {{"SELECT count(*) FROM jobq.jobs j WHERE j._queue_slot " SLOTS, {INT8OID}},
                                  {"SELECT count(*) FROM jobq.jobs j WHERE j._key_slot " SLOTS, {INT8OID}},
                                  {"SELECT count(*) FROM jobq.jobs j WHERE j._kind_slot " SLOTS, {INT8OID}},
                                  {"SELECT count(*) FROM jobq.jobs j WHERE j._limit_slot1 " SLOTS, {INT8OID}},
                                  {"SELECT count(*) FROM jobq.jobs j WHERE j._limit_slot2 " SLOTS, {INT8OID}}};
Statement count_of_other_keys = {
    R"(SELECT count(*) FROM jobq.jobs j
       WHERE j._key_slot IS NOT NULL AND j.queue = $1
         AND NOT EXISTS (SELECT FROM jobq.limit_settings l
                         WHERE l.queue = $1 AND l.key = j.concurrency_key AND NOT l.by_kind))",
    {TEXTOID}};
Statement count_of_other_kinds = {
    R"(SELECT count(*) FROM jobq.jobs j
       WHERE j._kind_slot IS NOT NULL AND j.queue = $1
         AND NOT EXISTS (SELECT FROM jobq.limit_settings l WHERE l.queue = $1 AND l.key = j.kind AND l.by_kind))",
    {TEXTOID}};

// Selects the running jobs that need a slot and do not hold it. Also selects some jobs that do not need the slot of a
// named limit, because the statement does not determine which of its names a job's slots belong to; give_slot()
// determines this. $1 contains the ids of the running jobs that are not
// rescue-indexed yet. $2 is the queue, or NULL for all queues.
Statement find_unslotted = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j.id = ANY ($1 || ARRAY (SELECT w.id FROM jobq.jobs w WHERE w._rescue_indexed)) AND j.status = 'processing'
         AND ($2 IS NULL OR j.queue = $2)
         AND (j._queue_slot IS NULL AND EXISTS (SELECT FROM jobq.limit_settings l
                                               WHERE l.queue = j.queue AND l.key = '' AND NOT l.by_kind
                                                 AND l.max_running IS NOT NULL)
              OR j._key_slot IS NULL AND j.concurrency_key IS NOT NULL
                 AND EXISTS (SELECT FROM jobq.limit_settings l
                             WHERE l.queue = j.queue AND l.key IN (j.concurrency_key, '*') AND NOT l.by_kind
                               AND l.max_running IS NOT NULL)
              OR j._kind_slot IS NULL AND EXISTS (SELECT FROM jobq.limit_settings l
                                                 WHERE l.queue = j.queue AND l.key IN (j.kind, '*') AND l.by_kind
                                                   AND l.max_running IS NOT NULL)
              OR (j._limit_slot1 IS NULL OR j._limit_slot2 IS NULL AND cardinality(j.limits) > 1) AND j.limits IS NOT NULL
                 AND EXISTS (SELECT FROM jobq.named_limit_settings l
                             WHERE l.name = ANY (j.limits) AND j.queue = ANY (l.queues) AND l.max_running IS NOT NULL))
       ORDER BY j.queue, j.kind, j.concurrency_key, j.id)",
    {INT8ARRAYOID, TEXTOID},
    Planning::Free};

bool raise_to(std::string_view queue, const QueueLimit &limit, int32 highest) {
    if (limit.member_count > 0) {
        run(raise_highest_named, Params().add(PointerGetDatum(make_text(limit.key))).add(Int32GetDatum(highest)));
        return affected() > 0;
    }
    run(raise_highest, Params()
                           .add(PointerGetDatum(make_text(queue)))
                           .add(PointerGetDatum(make_text(limit.key)))
                           .add(Int32GetDatum(highest))
                           .add(BoolGetDatum(limit.by_kind)));
    return affected() > 0;
}

// Raises highest_slot of the limit if this is necessary for claims to count a job that holds the slot with this number.
// Returns false if another transaction is changing the limit.
bool reach_number(std::string_view queue, const QueueLimit &limit, int32 number) {
    return number <= limit.max_running || number <= limit.highest_slot || raise_to(queue, limit, core::kHighestNumber);
}

void note_missing(std::string_view queue, const QueueLimit *limit) {
    if (limit == nullptr || limit->max_running < 0 || limit->highest_slot >= core::kSlotsMissing) return;
    raise_to(queue, *limit, core::kSlotsMissing);
}

// Causes claims to count the job in table.row as a job without a slot until a tick has given slots to all jobs. Call
// this function if the job does not get its slots now.
void let_claims_count(const JobsTable &jobs) {
    const std::string_view name = view(DatumGetTextPP(job_value(jobs, kJobQueue)));
    for (const SlotOf of : kAllSlots) note_missing(name, limit_of_job(jobs, *find_queue(name), name, of).limit);
}

// If the job in table.row needs a slot of its limit of the given type and does not hold one, takes a slot and adds it
// to `permits`. Returns false if another transaction is changing the limit.
bool give_slot(Slots *slots, SlotOf of, TimestampTz now, Given *given, Permit *permits, int *count) {
    const JobsTable &jobs = *slots->jobs;
    const std::string_view queue = view(DatumGetTextPP(job_value(jobs, kJobQueue)));
    const AppliedLimit applied = limit_of_job(jobs, *find_queue(queue), queue, of);
    if (applied.limit == nullptr || applied.limit->max_running < 0 || job_has(jobs, column_of_slot(of))) return true;
    const std::string_view key = of == SlotOf::Key ? applied.name : std::string_view();
    log_members_of(*applied.limit, applied.id);
    const int64 slot = take_any_slot(slots, of, queue, key, applied.id, now, given);
    if (slot == 0) return true;
    permits[(*count)++] = {of, applied.id, slot, {0, 0}};
    return reach_number(queue, *applied.limit, core::number_of_slot(slot));
}

// Gives the job the slots that it needs and does not hold. Returns false if another transaction has locked the job or
// one of its limits.
bool give_slots(JobsTable *jobs, int64 id, TimestampTz now, Given *last, int64 *given) {
    renew_snapshot(jobs);
    if (!find_job(jobs, id) || !has_status(*jobs, core::JobStatus::Processing)) return true;
    if (!lock_row_or_skip(&jobs->table)) {
        let_claims_count(*jobs);
        return false;
    }
    Slots slots = {jobs, {}, nullptr};
    Permit permits[kSlotsOf];
    int count = 0;
    const bool may = std::all_of(std::begin(kAllSlots), std::end(kAllSlots), [&](SlotOf of) {
        return give_slot(&slots, of, now, &last[static_cast<int>(of)], permits, &count);
    });
    if (!may) {
        let_claims_count(*jobs);
    } else if (count > 0) {
        core::Event event = {core::EventKind::SlotsGiven, now};
        enter_slots(permits, count, now, &event);
        change_locked_job(jobs, event);
        ++*given;
    }
    for (int i = 0; i < count; i++) unlock_slot(permits[i].slot);
    close_slots(&slots);
    return may;
}

// Returns the running jobs in the queue that need a slot and do not hold it. If `queue` is nullptr, returns such jobs
// in all queues.
Rows unslotted_jobs(text *queue) {
    return run(find_unslotted, Params().add(unindexed_jobs()).add_if(queue != nullptr, PointerGetDatum(queue)));
}

// Gives slots to all of the queue's running jobs that need them. Returns false if some jobs or limits were locked.
bool give_all_slots(text *queue, TimestampTz now, int64 *given) {
    const Rows rows = unslotted_jobs(queue);
    bool all = true;
    Given last[kSlotsOf] = {};
    if (rows.size() == 0) return all;
    JobsTable jobs;
    open_jobs(&jobs);
    for (uint64 i = 0; i < rows.size(); i++) {
        CHECK_FOR_INTERRUPTS();
        all &= give_slots(&jobs, rows[i].int64_at(1), now, last, given);
    }
    close_jobs(&jobs);
    return all;
}

// Gives slots to the running jobs that need them, in all queues. Does this in one subtransaction or, if that fails, in
// one subtransaction per job.
bool give_all_slots_carefully(TimestampTz now, int64 *given, DutyOutcome *outcome) {
    FailureText failure;
    bool all = true;
    if (attempt([&] { all = give_all_slots(nullptr, now, given); }, &failure)) return all;
    *given = 0;
    all = true;
    const Rows rows = unslotted_jobs(nullptr);
    for (uint64 i = 0; i < rows.size(); i++) {
        CHECK_FOR_INTERRUPTS();
        const int64 id = rows[i].int64_at(1);
        const auto give = [&] {
            JobsTable jobs;
            Given last[kSlotsOf] = {};
            open_jobs(&jobs);
            all &= give_slots(&jobs, id, now, last, given);
            close_jobs(&jobs);
        };
        if (attempt(give, &failure)) continue;
        all = false;
        leave_out(outcome, id, failure);
    }
    return all;
}

// The transaction and subtransaction in which look_for_unslotted() was last called.
TransactionId asked_in = InvalidTransactionId;
SubTransactionId asked_in_sub = InvalidSubTransactionId;

// Makes the next tick search for running jobs that need slots and do not hold them.
void look_for_unslotted() {
    const TransactionId xid = GetTopTransactionId();
    if (asked_in == xid && asked_in_sub == GetCurrentSubTransactionId()) return;
    run(ask, Params());
    asked_in = xid;
    asked_in_sub = GetCurrentSubTransactionId();
    log_due(GetCurrentTimestamp());
}

// Gives slots to the running jobs in queues that have a new limit. Leaves the jobs in other queues to the tick, because
// the jobs that this function handles stay locked until the end of the transaction.
void give_slots_of_queues(const Names &queues) {
    int64 given = 0;
    look_for_unslotted();
    CommandCounterIncrement();
    for (int i = 0; i < queues.count; i++) give_all_slots(make_text(queues.items[i]), GetCurrentTimestamp(), &given);
}
void give_slots_of_queue(text *queue) {
    std::string_view name = view(queue);
    give_slots_of_queues({&name, 1});
}

// Raises 42501 if a queue that shares the named limit is out of scope. Returns whether the limit exists.
bool check_members(text *name, const QueueScope *scope) {
    const Rows rows = run(read_members, Params().add(PointerGetDatum(name)));
    if (rows.size() == 0) return false;
    const Names members = names_of(DatumGetArrayTypeP(rows[0].get(1)), "queues", SIZE_MAX, PG_INT32_MAX);
    for (int i = 0; i < members.count; i++) check_scope(scope, members.items[i]);
    return true;
}

// Returns the number of jobs that run without a slot and that a claim must count as running under the limit.
int64 missing_under(const LimitName &name) {
    if (is_named(name.of)) {
        const Params params = Params().add(PointerGetDatum(name.name)).add(Int32GetDatum(core::kSlotsMissing));
        return read(is_missing, params).size() == 0 ? 0 : running_without_slot(name.of, {}, view(name.name));
    }
    const QueueLimit *limit = find_limit(*find_queue(view(name.queue)), name.of, view(name.name));
    if (limit == nullptr || limit->max_running < 0 || limit->highest_slot < core::kSlotsMissing) return 0;
    return running_without_slot(name.of, view(name.queue), view(name.name));
}

int64 slots_held(const LimitName &limit) {
    if (!is_named(limit.of) && limit.of != SlotOf::Queue && view(limit.name) == core::kEachKey)
        return read(limit.of == SlotOf::Key ? count_of_other_keys : count_of_other_kinds,
                    Params().add(PointerGetDatum(limit.queue)))[0]
            .int64_at(1);
    const int64 id = limit_id(limit.of, view(limit.queue), view(limit.name));
    const auto held_in = [&](SlotOf of) {
        return read(count_held[static_cast<int>(of)], Params().add(Int64GetDatum(id)))[0].int64_at(1);
    };
    return is_named(limit.of) ? held_in(SlotOf::Named1) + held_in(SlotOf::Named2) : held_in(limit.of);
}

bool should_hold(const SlotRow &job) {
    const Queue *queue = find_queue(job.queue);
    const auto counts = [](const QueueLimit *limit) { return limit != nullptr && limit->max_running >= 0; };
    if (queue->limit_count == 0) return false;
    for (int i = 0; i < job.limits.count; i++)
        if (counts(named_limit(*queue, job.limits.items[i]))) return true;
    return counts(limit_of_queue(*queue)) || (!job.key.empty() && counts(limit_of_key(*queue, job.key))) ||
           counts(limit_of_kind(*queue, job.kind));
}

bool same_limits(const SlotRow &a, const SlotRow &b) {
    return std::equal(a.limits.items, a.limits.items + a.limits.count, b.limits.items, b.limits.items + b.limits.count);
}

bool holds(const SlotRow &job, SlotOf of) { return job.slots[static_cast<int>(of)] != 0; }

Datum next_xid() { return FullTransactionIdGetDatum(ReadNextFullTransactionId()); }

// Stores the next transaction ID in each committed request. The request must stay until all transactions with lower IDs
// have ended, because such transactions might be claims that used the old settings. A claim gets its transaction ID
// before it reads the settings for the last time, so claims with higher IDs have read the changed settings.
void date_requests() {
    const Rows committed = run(find_committed, Params().add(next_xid()));
    const Datum before = next_xid();
    for (uint64 i = 0; i < committed.size(); i++) run(date_request, Params().add(committed[i].get(1)).add(before));
}

}  // namespace

void set_limit(const LimitName &limit, const LimitValues &values) {
    run(set, Params()
                 .add(PointerGetDatum(limit.queue))
                 .add(PointerGetDatum(limit.name))
                 .add(BoolGetDatum(limit.of == SlotOf::Kind))
                 .add_if(values.has_max_running, Int32GetDatum(values.max_running))
                 .add_if(values.has_rate, Int32GetDatum(values.rate))
                 .add_if(values.has_rate, IntervalPGetDatum(values.per)));
    if (values.has_max_running) give_slots_of_queue(limit.queue);
    slots_freed_at_commit();
}

bool remove_limit(const LimitName &limit) {
    const Datum queue = PointerGetDatum(limit.queue);
    const Datum by_kind = BoolGetDatum(limit.of == SlotOf::Kind);
    run(remove, Params().add(queue).add(PointerGetDatum(limit.name)).add(by_kind));
    if (affected() == 0) return false;
    slots_freed_at_commit();
    if (limit.of == SlotOf::Queue || view(limit.name) == core::kEachKey) return true;
    run(distrust_each_key, Params().add(queue).add(by_kind));
    if (affected() > 0) give_slots_of_queue(limit.queue);
    return true;
}

void set_named_limit(text *name, const Names &queues, const LimitValues &values, const QueueScope *scope) {
    run(set_named, Params()
                       .add(PointerGetDatum(name))
                       .add(array_of_names(queues.items, queues.count))
                       .add_if(values.has_max_running, Int32GetDatum(values.max_running))
                       .add_if(values.has_rate, Int32GetDatum(values.rate))
                       .add_if(values.has_rate, IntervalPGetDatum(values.per))
                       .add_if(scope != nullptr, scope_array(scope)));
    if (affected() == 0) check_members(name, scope);
    if (values.has_max_running) give_slots_of_queues(queues);
    slots_freed_at_commit();
}

bool remove_named_limit(text *name, const QueueScope *scope) {
    run(remove_named, Params().add(PointerGetDatum(name)).add_if(scope != nullptr, scope_array(scope)));
    if (affected() == 0) {
        check_members(name, scope);
        return false;
    }
    slots_freed_at_commit();
    return true;
}

bool keeps_slots(const SlotRow &before, const SlotRow &after) {
    return before.running && after.running && before.queue == after.queue && before.key == after.key &&
           (before.kind == after.kind || !holds(before, SlotOf::Kind)) &&
           (same_limits(before, after) || !(holds(before, SlotOf::Named1) || holds(before, SlotOf::Named2))) &&
           std::equal(std::begin(before.slots), std::end(before.slots), std::begin(after.slots));
}

void follow_slots(const SlotRow &before, const SlotRow &after) {
    // A job that has kept its slots under other limits might need a slot under the limit of its new kind or under its
    // new named limits.
    if (after.running && (!keeps_slots(before, after) || before.kind != after.kind || !same_limits(before, after)))
        expect_slots(after);
}

void expect_slots(const SlotRow &job) {
    if (should_hold(job)) look_for_unslotted();
}

void distrust_limits() {
    run(distrust, Params().add(Int32GetDatum(core::kSlotsMissing)));
    run(distrust_named, Params().add(Int32GetDatum(core::kSlotsMissing)));
    look_for_unslotted();
}

int64 running_under(const LimitName &limit) { return slots_held(limit) + missing_under(limit); }

void settle_slots(TimestampTz now, DutyOutcome *outcome) {
    // Does nothing at isolation level REPEATABLE READ or higher, because the following checks need the newest rows, but
    // such a transaction continues to use its first snapshot.
    if (IsolationUsesXactSnapshot()) return;
    // Locks the limits before the search for jobs, because the search ignores limits that are added during the search.
    const Params is_missing_slots = Params().add(Int32GetDatum(core::kSlotsMissing));
    const Rows missing[kLimitTables] = {run(lock_missing[kOfQueues], is_missing_slots),
                                        run(lock_missing[kNamed], is_missing_slots)};
    const auto all_given = [&] {
        for (int table = 0; table < kLimitTables; table++)
            for (uint64 i = 0; i < missing[table].size(); i++)
                run(end_missing[table], Params().add(missing[table][i].get(1)));
    };
    if (run(asked, Params()).size() == 0) {
        const Rows raised = run(find_raised, Params());
        for (uint64 i = 0; i < raised.size(); i++) run(lower_highest, Params().add(raised[i].get(1)));
        const Rows named = run(find_raised_named, Params());
        for (uint64 i = 0; i < named.size(); i++)
            run(lower_highest_named,
                Params().add(named[i].get(1)).add(Int64GetDatum(named_limit_id(named[i].text_at(2)))));
        all_given();
        return;
    }
    date_requests();
    const Rows settled = run(find_settled, Params());
    int64 given = 0;
    const bool all = give_all_slots_carefully(now, &given, outcome);
    outcome->done += given;
    if (!all) return;
    all_given();
    for (uint64 i = 0; i < settled.size(); i++) run(end_request, Params().add(settled[i].get(1)));
}

}  // namespace jobq
