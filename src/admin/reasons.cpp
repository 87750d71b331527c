// See reasons.h.
#include "compat/pg.h"

#include "admin/reasons.h"
#include "compat/args.h"
#include "compat/readers_lock.h"
#include "identity/identity.h"
#include "lanes/lanes.h"
#include "leases/lease_sql.h"
#include "limits/limit_settings.h"
#include "limits/limit_state.h"
#include "limits/limiter.h"
#include "row/numbers.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"
#include "waiters/waiters.h"

#include <algorithm>

extern "C" {
#include "lib/stringinfo.h"
}

namespace jobq {

namespace {

// The tables that jobq_explain and jobq_explain_queue read.
constexpr const char *kTables[] = {"jobs",           "lane_directory",       "queue_settings", "kind_settings",
                                   "limit_settings", "named_limit_settings", "edges",          "steps",
                                   "identity",       "batch_settings"};

// These statements select the jobs whose slot numbers are between $1 and $2, ordered by the time when the jobs started.
#define WITH_SLOT_BETWEEN \
    "BETWEEN $1 + 1 AND $2 - 1 ORDER BY j.started_at, j.id LIMIT $3", { INT8OID, INT8OID, INT8OID }
#define NAMED_SLOTS "BETWEEN $1 + 1 AND $2 - 1 "
Statement find_holders[] = {
    {"SELECT j.id FROM jobq.jobs j WHERE j._queue_slot " WITH_SLOT_BETWEEN},
    {"SELECT j.id FROM jobq.jobs j WHERE j._key_slot " WITH_SLOT_BETWEEN},
    {"SELECT j.id FROM jobq.jobs j WHERE j._kind_slot " WITH_SLOT_BETWEEN},
    {"SELECT j.id FROM (SELECT a.id, a.started_at FROM jobq.jobs a WHERE a._limit_slot1 " NAMED_SLOTS
     "UNION ALL SELECT b.id, b.started_at FROM jobq.jobs b WHERE b._limit_slot2 " NAMED_SLOTS
     ") j ORDER BY j.started_at, j.id LIMIT $3",
     {INT8OID, INT8OID, INT8OID}}};

// Selects the suspects that are running on trial.
Statement find_on_trial = {R"(SELECT j.id, j.worker_id, )" TRIAL_END R"( AS ends_at, count(*) OVER ()
       FROM jobq.jobs j
       WHERE j._rescue_indexed AND j.status = 'processing' AND )" RUNS_AS_SUSPECT " AND " IS_ON_TRIAL R"(
         AND (j.queue = $1 OR j.worker_id = $2)
       ORDER BY j.worker_id IS NOT DISTINCT FROM $2 DESC, ends_at, j.id LIMIT $3)",
                           {TEXTOID, TEXTOID, INT8OID},
                           Planning::Free};

Statement find_session = {
    R"(SELECT l.pid, nullif(a.application_name, ''), a.state, a.xact_start
       FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
       WHERE l.locktype = 'transactionid' AND l.transactionid = $1 AND l.mode = 'ExclusiveLock' AND l.granted
         AND l.pid IS NOT NULL)",
    {XIDOID},
    Planning::Free};
Statement find_prepared = {
    "SELECT p.gid FROM pg_catalog.pg_prepared_xacts p WHERE p.transaction = $1", {XIDOID}, Planning::Free};

// Selects the sessions whose lock on table $1 or one of its indexes makes readers wait. If $2 is true, also selects the
// sessions whose lock on the table makes writers wait. Such locks are acquired, for example, by CREATE INDEX without
// CONCURRENTLY, LOCK TABLE, ALTER TABLE, and REINDEX. Includes sessions that wait for such a lock, because other
// sessions must wait for them, too. Also includes prepared transactions, which hold locks but have no process.
Statement find_table_locks = {
    R"(SELECT l.pid, l.mode, nullif(a.application_name, ''), a.state, a.xact_start, l.granted,
              l.relation::pg_catalog.regclass::text, p.gid
       FROM pg_catalog.pg_locks l
            LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
            LEFT JOIN pg_catalog.pg_locks x
                 ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock'
                 AND x.virtualtransaction = l.virtualtransaction
            LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = x.transactionid
       WHERE l.locktype = 'relation'
         AND (l.relation = $1 AND (l.mode = 'AccessExclusiveLock'
                                   OR $2 AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock'))
              OR l.relation IN (SELECT i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = $1)
                 AND l.mode = 'AccessExclusiveLock')
         AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d
                           WHERE d.datname = pg_catalog.current_database())
         AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
       ORDER BY l.relation <> $1, NOT l.granted, a.xact_start, l.pid LIMIT 10)",
    {OIDOID, BOOLOID},
    Planning::Free};
Statement find_blocking = {
    R"(SELECT DISTINCT ON (b.pid) b.pid, nullif(a.application_name, ''), a.state, a.xact_start
       FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids($1)) b(pid)
            LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid
       ORDER BY b.pid LIMIT 10)",
    {INT4OID},
    Planning::Free};

char *copy_of(std::string_view text) { return pnstrdup(text.data(), text.size()); }

void refused(const FailureText &failure, ReasonSink *sink) {
    sink->take({ReasonKind::Refused, psprintf("every claim fails: %s", failure.message)});
}

// Appends a description of a session, for example "process 12 (psql), idle in transaction, in a transaction since ...".
// The row contains three columns of pg_stat_activity, beginning at `name_column`.
void describe_session(StringInfo text, int32 pid, const Row &row, int name_column) {
    appendStringInfo(text, "process %d", pid);
    if (!row.is_null(name_column)) appendStringInfo(text, " (%s)", copy_of(row.text_at(name_column)));
    if (!row.is_null(name_column + 1)) appendStringInfo(text, ", %s", copy_of(row.text_at(name_column + 1)));
    if (!row.is_null(name_column + 2))
        appendStringInfo(text, ", in a transaction since %s",
                         timestamptz_to_str(DatumGetTimestampTz(row.get(name_column + 2))));
}

// The set of processes that a reason names.
struct Pids {
    Datum items[200];
    int count;
};

bool add_pid(Pids *pids, int32 pid) {
    const Datum *end = pids->items + pids->count;
    if (pids->count == static_cast<int>(lengthof(pids->items)) ||
        std::find(static_cast<const Datum *>(pids->items), end, Int32GetDatum(pid)) != end)
        return false;
    pids->items[pids->count++] = Int32GetDatum(pid);
    return true;
}

// Appends a description of the processes for which the process `pid` is waiting, for example ", blocked by process 12
// (psql), active".
void describe_blocking(StringInfo text, int32 pid, Pids *pids) {
    const Rows blocking = read(find_blocking, Params().add(Int32GetDatum(pid)));
    for (uint64 i = 0; i < blocking.size(); i++) {
        const int32 other = blocking[i].int32_at(1);
        appendStringInfoString(text, i == 0 ? ", blocked by " : " and ");
        if (other == 0) {
            appendStringInfoString(text, "a prepared transaction");
            continue;
        }
        describe_session(text, other, blocking[i], 2);
        add_pid(pids, other);
    }
}

// Appends a description of a lock that a session holds, or is waiting for, on the table or one of its indexes.
void describe_table_lock(StringInfo text, const Row &lock, Pids *pids) {
    const char *mode = copy_of(lock.text_at(2));
    const char *table = copy_of(lock.text_at(7));
    if (lock.is_null(1)) {
        appendStringInfo(text, "prepared transaction \"%s\" holds %s on %s",
                         lock.is_null(8) ? "" : copy_of(lock.text_at(8)), mode, table);
        return;
    }
    const int32 pid = lock.int32_at(1);
    if (lock.bool_at(6)) {
        describe_session(text, pid, lock, 3);
        appendStringInfo(text, ", holds %s on %s", mode, table);
        return;
    }
    describe_session(text, pid, lock, 3);
    appendStringInfo(text, ", waits for %s on %s", mode, table);
    describe_blocking(text, pid, pids);
}

Oid table_called(const char *name) { return get_relname_relid(name, get_namespace_oid("jobq", false)); }

bool has_jobs(const char *table) { return strcmp(table, kTables[0]) == 0; }

const char *what_a_lock_does(const char *table) {
    return has_jobs(table) ? "every claim must wait: " : "the reason cannot be looked up: ";
}

bool explain_table_locks(const char *table, ReasonSink *sink) {
    const Rows locks =
        read(find_table_locks, Params().add(ObjectIdGetDatum(table_called(table))).add(BoolGetDatum(has_jobs(table))));
    if (locks.size() == 0) return false;
    StringInfoData text;
    initStringInfo(&text);
    appendStringInfoString(&text, what_a_lock_does(table));
    auto *pids = static_cast<Pids *>(palloc0(sizeof(Pids)));
    for (uint64 i = 0; i < locks.size(); i++) {
        // Skips a lock on an index if the list already contains a lock of the same session.
        if (!locks[i].is_null(1) && !add_pid(pids, locks[i].int32_at(1)) && locks[i].text_at(7) != locks[0].text_at(7))
            continue;
        if (i > 0) appendStringInfoString(&text, "; ");
        describe_table_lock(&text, locks[i], pids);
    }
    sink->take({.kind = ReasonKind::Locked,
                .detail = text.data,
                .pids = pids->count > 0 ? array_of(pids->items, pids->count, INT4OID) : 0});
    return true;
}

// Returns how many slots of the limit are taken, including slots of uncommitted claims. Returns -1 and reports the
// error if a claim would fail.
int taken_places(SlotOf of, int64 id, ReasonSink *sink) {
    int taken = 0;
    const auto count = [&] {
        JobsTable jobs;
        open_jobs_for_reading(&jobs);
        Slots slots = {&jobs, {}, nullptr};
        taken = held_numbers(&slots, of, id).count;
        close_slots(&slots);
        close_jobs_for_reading(&jobs);
    };
    FailureText failure;
    if (attempt(count, &failure)) return taken;
    refused(failure, sink);
    return -1;
}

// If the limit that applies to a queue, key, or kind, or a named limit lets no job start, reports this and returns
// true. `subject` is what the limit applies to, for example 'queue "api"' or 'concurrency_key "customer 1"'.
bool explain_limit(const char *subject, std::string_view queue, const QueueLimit &limit, SlotOf of,
                   std::string_view name, TimestampTz now, ReasonSink *sink) {
    bool stops = false;
    const int64 id = limit_id(of, queue, name);
    const int64 running = running_under({make_text(queue), of, make_text(name)});
    if (limit.max_running >= 0 && running >= limit.max_running) {
        const Rows holders = read(find_holders[Min(static_cast<int>(of), static_cast<int>(SlotOf::Named1))],
                                  Params()
                                      .add(Int64GetDatum(id))
                                      .add(Int64GetDatum(core::slot_of(id, core::kHighestNumber + 1)))
                                      .add(Int64GetDatum(kNamedJobs)));
        sink->take({ReasonKind::Limit,
                    psprintf("%s: %lld running, max_running is %d", subject, static_cast<long long>(running),
                             limit.max_running),
                    ids_in(holders)});
        stops = true;
    } else if (limit.max_running > 0) {
        const int taken = taken_places(of, id, sink);
        stops = taken < 0;
        if (taken >= limit.max_running) {
            sink->take({ReasonKind::Limit,
                        psprintf("%s: %lld running, max_running is %d, and uncommitted claims take the other slots; "
                                 "see jobq_explain_queue",
                                 subject, static_cast<long long>(running), limit.max_running)});
            stops = true;
        }
    }
    TimestampTz next;
    if (limit.rate.interval > 0 && shared_memory_ready() &&
        peek_tokens(id, bucket_owner(limit, id, queue), limit.rate, now, &next) <= 0) {
        sink->take({.kind = ReasonKind::Rate,
                    .detail = psprintf("%s: its rate lets the next job start at the time in \"until\"", subject),
                    .until = next});
        stops = true;
    }
    return stops;
}

// These functions describe a kind or the requirements of jobs, for example: kind "video", version 2, requires
// {gpu,ffmpeg}. Version 0 and empty requirements are omitted.
const char *describe_kind(std::string_view kind) {
    return kind.empty() ? "no kind" : psprintf("kind \"%s\"", copy_of(kind));
}

char *describe(const Demand &demand) {
    StringInfoData text;
    initStringInfo(&text);
    appendStringInfoString(&text, describe_kind(demand.kind));
    if (demand.version != 0) appendStringInfo(&text, ", version %d", demand.version);
    for (int i = 0; i < demand.required_count; i++)
        appendStringInfo(&text, "%s%s", i == 0 ? ", requires {" : ",", copy_of(demand.required[i]));
    if (demand.required_count > 0) appendStringInfoChar(&text, '}');
    return text.data;
}

core::Fit fit_of(const RecentFilter &recent, const Demand &demand) {
    return core::fit_of(recent.filter, demand.kind, demand.version, demand.required, demand.required_count);
}

// Minimum time that recent_filters() must cover before jobq_explain reports that no worker has asked for a job.
constexpr core::Micros kWorthTelling = 10 * core::kSecond;

// Age below which a request is reported without an exact time, because sessions record their requests only every few
// seconds.
constexpr core::Micros kShortestShownAge = 2 * kNoteEvery;

// Returns a text that says how much time has passed between `since` and `now`.
char *describe_span(TimestampTz since, TimestampTz now) {
    const core::Micros span = Max(now - since, 0);
    if (span >= 2 * core::kMinute) return psprintf("%lld minutes", static_cast<long long>(span / core::kMinute));
    return psprintf("%lld seconds", static_cast<long long>(span / core::kSecond));
}

}  // namespace

void ReasonSink::take(const Reason &reason) {
    if (count++ == 0) first = reason.kind;
    if (results == nullptr) return;
    const Datum values[] = {CStringGetTextDatum(reason.kind), CStringGetTextDatum(reason.detail), reason.jobs,
                            reason.pids, TimestampTzGetDatum(reason.until)};
    const bool nulls[] = {false, false, reason.jobs == 0, reason.pids == 0, reason.until == DT_NOEND};
    results->row(values, nulls);
}

const char *count_text(int64 count) {
    return count > kCounted ? psprintf("more than %lld", static_cast<long long>(kCounted))
                            : psprintf("%lld", static_cast<long long>(count));
}

Datum ids_in(const Rows &rows) {
    const int count = static_cast<int>(Min(rows.size(), static_cast<uint64>(kNamedJobs)));
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    for (int i = 0; i < count; i++) ids[i] = rows[i].get(1);
    return array_of(ids, count, INT8OID);
}

bool explain_queue_stops(std::string_view name, const Queue &queue, TimestampTz now, ReasonSink *sink) {
    if (queue.paused)
        sink->take(
            {ReasonKind::Paused, psprintf("queue \"%s\" is paused; jobq_resume_queue resumes it", copy_of(name))});
    TimestampTz due;
    FailureText failure;
    if (!attempt([&] { require_known_queue(name); }, &failure)) {
        refused(failure, sink);
        return true;
    }
    // Without shared memory, a claim from a queue with a rate limit raises an error.
    if (!shared_memory_ready() && !attempt([&] { queue_may_run(queue, name, now, &due); }, &failure)) {
        refused(failure, sink);
        return true;
    }
    const QueueLimit *limit = limit_of_queue(queue);
    if (limit == nullptr) return queue.paused;
    return explain_limit(psprintf("queue \"%s\"", copy_of(name)), name, *limit, SlotOf::Queue, {}, now, sink) ||
           queue.paused;
}

bool explain_key_stops(std::string_view name, std::string_view key, const Queue &queue, TimestampTz now,
                       ReasonSink *sink) {
    const QueueLimit *limit = limit_of_key(queue, key);
    if (limit == nullptr) return false;
    return explain_limit(psprintf("concurrency_key \"%s\"", copy_of(key)), name, *limit, SlotOf::Key, key, now, sink);
}

bool explain_kind_stops(std::string_view name, std::string_view kind, const Queue &queue, TimestampTz now,
                        ReasonSink *sink) {
    const QueueLimit *limit = limit_of_kind(queue, kind);
    if (limit == nullptr) return false;
    const char *subject = kind.empty() ? "jobs without a kind" : describe_kind(kind);
    return explain_limit(subject, name, *limit, SlotOf::Kind, kind, now, sink);
}

bool explain_limit_stops(std::string_view name, std::string_view limit, const Queue &queue, TimestampTz now,
                         ReasonSink *sink) {
    const QueueLimit *found = named_limit(queue, limit);
    if (found == nullptr) return false;
    return explain_limit(psprintf("limit \"%s\"", copy_of(limit)), name, *found, SlotOf::Named1, limit, now, sink);
}

Demand demand_at(const Row &row, int kind_column) {
    const int requires_column = kind_column + 2;
    const Names required =
        canonical_requires(row.is_null(requires_column) ? nullptr : DatumGetArrayTypeP(row.get(requires_column)));
    return {row.text_at(kind_column), row.int32_at(kind_column + 1), required.items, required.count};
}

// Returns a text that lists up to kNamedKinds of the kinds that workers have asked for.
constexpr int kNamedKinds = 10;
const char *asked_kinds(const RecentFilters &recent) {
    StringInfoData text;
    initStringInfo(&text);
    int named = 0;
    for (int i = 0; i < recent.count; i++) {
        const core::WorkerFilter &filter = recent.items[i].filter;
        for (int k = 0; filter.kinds != nullptr && k < filter.kind_count && named < kNamedKinds; k++) {
            const char *kind = describe_kind(filter.kinds[k]);
            if (strstr(text.data, kind) != nullptr) continue;
            appendStringInfo(&text, "%s%s", named++ == 0 ? ", only for " : ", ", kind);
        }
    }
    return text.data;
}

Workers find_workers(std::string_view queue, TimestampTz now) {
    return {queue, recent_filters(queue, now), connected_workers()};
}

// The connected workers that take jobs of a queue.
struct Crew {
    int all, busy;
};
// Counts the workers that take jobs with these requirements, or any jobs of the queue if `demand` is nullptr. A worker
// does not tell its versions and capabilities, so only the kind is compared.
Crew crew_of(const Workers &workers, const Demand *demand) {
    Crew crew = {0, 0};
    for (int i = 0; i < workers.connected.count; i++) {
        const ConnectedWorker &worker = workers.connected.items[i];
        if (!serves(worker, workers.queue) || (demand != nullptr && !handles(worker, demand->kind))) continue;
        crew.all++;
        if (worker.state == WorkerState::Busy) crew.busy++;
    }
    return crew;
}

const char *describe_crew(const Workers &workers, const Demand *demand) {
    if (crew_of(workers, nullptr).all == 0) return "";
    const Crew crew = crew_of(workers, demand);
    const char *what = demand == nullptr ? "take jobs of this queue" : "take jobs of this kind";
    if (crew.all == 0) return psprintf("; none of the connected workers %s", what);
    const char *busy = crew.busy == 0         ? "none is busy"
                       : crew.busy < crew.all ? psprintf("%d busy", crew.busy)
                       : crew.all == 1        ? "it is busy"
                                              : "all of them are busy";
    return psprintf("; connected workers that %s: %d (%s)", what, crew.all, busy);
}

bool explain_unasked(const Workers &workers, const Demand &demand, int64 jobs, TimestampTz now, ReasonSink *sink) {
    const RecentFilters &recent = workers.recent;
    // If requests have been recorded for only a short time, a request for matching jobs might not have been recorded
    // yet.
    if (recent.since == DT_NOEND || now - recent.since < kWorthTelling) return false;
    auto best = core::Fit::NotKind;
    for (int i = 0; i < recent.count; i++) {
        if (!recent.items[i].known) return false;
        best = std::max(best, fit_of(recent.items[i], demand));
    }
    if (best == core::Fit::Takes) return false;
    // A worker that is busy for a long time is connected, although it has not asked for jobs recently.
    if (best == core::Fit::NotKind && crew_of(workers, &demand).all > 0) return false;
    const char *missing =
        recent.count == 0               ? "no worker has asked for jobs of the queue"
        : best == core::Fit::NotKind    ? psprintf("no worker has asked for this kind%s", asked_kinds(recent))
        : best == core::Fit::NotVersion ? "workers have asked for this kind, but not for this version"
                                        : "no worker with all of these capabilities has asked for this kind";
    const char *who = jobs > 0 ? psprintf("%s job%s of %s", count_text(jobs), jobs == 1 ? "" : "s", describe(demand))
                               : describe(demand);
    sink->take(
        {ReasonKind::Unasked, psprintf("%s: %s in the last %s", who, missing, describe_span(recent.since, now))});
    return true;
}

void add_last_request(const RecentFilters &recent, const Demand &demand, LastRequest *last) {
    for (int i = 0; i < recent.count; i++) {
        const RecentFilter &one = recent.items[i];
        if (!one.known)
            last->unknown = Max(last->unknown, one.asked_at);
        else if (fit_of(one, demand) == core::Fit::Takes)
            last->fitting = Max(last->fitting, one.asked_at);
    }
}

const char *describe_requests(const Workers &workers, const Demand *demand, const LastRequest &last, TimestampTz now) {
    const RecentFilters &recent = workers.recent;
    if (recent.since == DT_NOEND) return "";
    const SleeperCount sleepers = count_sleepers(workers.queue);
    const char *waiting =
        psprintf("%s session%s for jobs of this queue%s", sleepers.all == 0 ? "no" : psprintf("%d", sleepers.all),
                 sleepers.all > 1 ? "s wait" : " waits",
                 sleepers.several == 0 ? "" : psprintf(" (%d of them for other queues, too)", sleepers.several));
    const char *crew = describe_crew(workers, demand);
    const TimestampTz at = Max(last.fitting, last.unknown);
    if (at == DT_NOBEGIN)
        return psprintf("; no worker has asked for such a job in the last %s, and %s%s",
                        describe_span(recent.since, now), waiting, crew);
    return psprintf(
        "; a worker last asked for %s %s ago, and %s%s",
        last.fitting == at ? "such a job" : "jobs of this queue (with names too long to compare)",
        now - at < kShortestShownAge ? "less than 10 seconds" : psprintf("about %s", describe_span(at, now)), waiting,
        crew);
}

bool explain_suspects(std::string_view name, text *worker, int64 count, TimestampTz now, ReasonSink *sink) {
    const Rows trials = read(find_on_trial, Params()
                                                .add(PointerGetDatum(make_text(name)))
                                                .add(PointerGetDatum(worker == nullptr ? make_text("") : worker))
                                                .add(Int64GetDatum(kNamedJobs)));
    StringInfoData text;
    initStringInfo(&text);
    if (count > 1)
        appendStringInfo(&text, "%lld jobs have lost a worker before, and are handed out one at a time",
                         static_cast<long long>(count));
    else
        appendStringInfoString(&text, "it has lost a worker before, and is handed out alone");
    TimestampTz until = DT_NOEND;
    if (trials.size() > 0) {
        const auto more = static_cast<long long>(trials[0].int64_at(4) - 1);
        appendStringInfo(&text, "; worker \"%s\"", copy_of(trials[0].text_at(2)));
        if (more > 0) appendStringInfo(&text, " and %lld more", more);
        appendStringInfoString(&text, more > 0 ? " have such jobs on trial, and get no others"
                                               : " has such a job on trial, and gets no other");
        for (uint64 i = 0; i < trials.size(); i++) until = Min(until, DatumGetTimestampTz(trials[i].get(3)));
    }
    // A trial continues after its end time until the next heartbeat, so an end time in the past is not reported.
    sink->take({.kind = ReasonKind::Suspect,
                .detail = text.data,
                .jobs = trials.size() > 0 ? ids_in(trials) : 0,
                .until = until > now ? until : DT_NOEND});
    return trials.size() > 0;
}

void explain_holders(const RowHolders &holders, Datum jobs, int64 count, ReasonSink *sink) {
    if (holders.count == 0) return;
    StringInfoData text;
    initStringInfo(&text);
    if (count > 1)
        appendStringInfo(&text, "%lld jobs are locked by", static_cast<long long>(count));
    else
        appendStringInfoString(&text, "its row is locked by");
    auto *pids = static_cast<Datum *>(palloc(sizeof(Datum) * kMaxHolders));
    int pid_count = 0;
    for (int i = 0; i < holders.count; i++) {
        const Datum xid = TransactionIdGetDatum(holders.xids[i]);
        const Rows sessions = read(find_session, Params().add(xid));
        appendStringInfoString(&text, i > 0 ? "; " : " ");
        if (sessions.size() > 0) {
            pids[pid_count++] = sessions[0].get(1);
            describe_session(&text, sessions[0].int32_at(1), sessions[0], 2);
            continue;
        }
        const Rows prepared = read(find_prepared, Params().add(xid));
        if (prepared.size() > 0)
            appendStringInfo(&text, "prepared transaction \"%s\"", copy_of(prepared[0].text_at(1)));
        else
            appendStringInfo(&text, "transaction %u", holders.xids[i]);
    }
    sink->take({ReasonKind::Locked, text.data, jobs, pid_count > 0 ? array_of(pids, pid_count, INT4OID) : 0});
}

bool explain_refusal(ReasonSink *sink) {
    FailureText failure;
    const bool copy = leaves_jobs_alone();
    if (copy)
        sink->take({ReasonKind::Copy, psprintf("the database is a copy; see jobq_adopt(). %s", describe_origin())});
    const bool locked = explain_table_locks(kTables[0], sink) || copy;
    if (attempt(require_usable_jobs, &failure)) return locked;
    refused(failure, sink);
    return true;
}

bool explain_unreadable(ReasonSink *sink) {
    for (const char *name : kTables) {
        const Oid table = table_called(name);
        // Tries to acquire, without waiting, the lock that reading the table requires. The table can be missing if the
        // extension has not been updated to the version of the library.
        if (!OidIsValid(table) || lock_for_reading(table)) continue;
        // If the other session has released the lock in the meantime, the report does not name the session.
        if (!explain_table_locks(name, sink))
            sink->take({ReasonKind::Locked,
                        psprintf("%sanother session has just locked jobq.%s", what_a_lock_does(name), name)});
        return true;
    }
    return false;
}

void explain_unserved(const char *what, ReasonSink *sink) {
    if (worker_serves_database()) return;
    sink->take(
        {ReasonKind::Unserved,
         psprintf("%s, but no background worker serves this database (see jobq.background_workers); call jobq_tick()",
                  what)});
}

}  // namespace jobq
