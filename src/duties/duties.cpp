// See duties.h. Jobs that somebody else holds are passed over: a tick waits for nobody.
#include "compat/pg.h"

#include "base/clock.h"
#include "compat/args.h"
#include "compat/memory.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "duties/duties.h"
#include "duties/orphans.h"
#include "edges/edges.h"
#include "ending/ending.h"
#include "ending/overrun.h"
#include "ending/references.h"
#include "groups/groups.h"
#include "groups/unblock.h"
#include "job/change_job.h"
#include "job/jobs_table.h"
#include "job/rows.h"
#include "job/transaction_log.h"
#include "keys/kept_keys.h"
#include "lanes/empty_ranges.h"
#include "lanes/lanes.h"
#include "lanes/refresh.h"
#include "lanes/retire.h"
#include "leases/horizon.h"
#include "leases/lease_sql.h"
#include "leases/rescue_index.h"
#include "leases/suspects.h"
#include "leases/young_leases.h"
#include "limits/limit_settings.h"
#include "queues/directory.h"
#include "shmem/database_state.h"
#include "steps/signals.h"

namespace jobq {

namespace {

// When a lease runs out: one timeout after the last heartbeat; but a lease that is older than $2, the start of the
// grace (server start, promotion, clock step), gets one timeout from there: its worker could not reach the server.
// That of an executor has no clock (duties/orphans.h).
#define LEASE_DEADLINE \
    "CASE WHEN j._lease_timeout >= " ENDLESS_LEASE " AND j.lease IS NOT NULL THEN "     \
    "timestamptz 'infinity' ELSE "                                                           \
    "greatest(" BOUNDED_TIME("coalesce(j.last_heartbeat, j.created_at)") ", CASE "                \
    "WHEN j.started_at < $2 THEN $2 END) + " LEASE_TIMEOUT " END"

// When its time is over; NULL: it may run for ever. The grace is the same: the worker could not report.
#define RUNTIME_DEADLINE                                                                                           \
    "CASE WHEN j.started_at < $2 AND j._must_end_at IS NOT NULL THEN greatest(j._must_end_at, $2 + " LEASE_TIMEOUT \
    ") ELSE j._must_end_at END"
#define DEADLINE "least(" LEASE_DEADLINE ", " RUNTIME_DEADLINE ")"

// Whether its time was over before its worker was lost.
Statement lock_expired = {"SELECT j.id, coalesce(" RUNTIME_DEADLINE " < " LEASE_DEADLINE
                          ", false) FROM jobq.jobs j WHERE j._rescue_indexed AND j.status = 'processing' AND " DEADLINE
                          " < $1 LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED",
                          {TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID}};

Statement lock_overdue = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j._rescue_indexed AND j.status = 'processing' AND j.cancel_requested_at < $1
       LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)",
    {TIMESTAMPTZOID, INT8OID}};

Statement lock_due = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j._due AND j.run_at <= $1
       ORDER BY j.run_at, j.id LIMIT $2
       FOR NO KEY UPDATE SKIP LOCKED)",
    {TIMESTAMPTZOID, INT8OID}};

// The prune walks the primary key: no index on the time of finishing, which every completion would pay for.
Statement read_page = {
    R"(SELECT j.id, j.queue, j.status::text, j.finished_at, j.created_at
       FROM jobq.jobs j WHERE j.id > $1 ORDER BY j.id LIMIT $2)",
    {INT8OID, INT8OID}};

// A job that was retried meanwhile has another finished_at.
Statement lock_unkept = {
    R"(SELECT j.id FROM unnest($1, $2) AS u(id, finished_at),
            LATERAL (SELECT j.id FROM jobq.jobs j
                     WHERE j.id = u.id AND j.finished_at = u.finished_at AND j.status <> 'processing'
                     FOR UPDATE SKIP LOCKED) j)",
    {INT8ARRAYOID, TIMESTAMPTZARRAYOID}};

// No row while another tick prunes.
Statement get_prune_position = {
    "SELECT t.prune_after FROM jobq.tick_state t FOR UPDATE SKIP LOCKED", {}, Planning::Free};
Statement set_prune_position = {
    "UPDATE jobq.tick_state t SET prune_after = $1, lap_after = $2 WHERE (t.prune_after, t.lap_after) <> ($1, $2)",
    {INT8OID, INT8OID},
    Planning::Free};

Statement find_missing_lanes = {
    R"(SELECT u.lane FROM unnest($1) AS u(lane)
       WHERE NOT EXISTS (SELECT FROM jobq.lane_directory d WHERE d.lane = u.lane AND NOT d.retiring) ORDER BY u.lane)",
    {INT8ARRAYOID}};
constexpr int kLanesAtOnce = 1000;
// So many entries of lanes without a row at a time: those of jobs that are gone stay while an old snapshot may see
// them.
constexpr int kMissingPiece = 20000;
// Where the next look at such lanes begins: in a lane, at a key.
struct {
    int64 lane;
    core::ClaimKey key;
} missing_from = {PG_INT64_MIN, core::kFirstKey};

// ALTER TABLE ... ENABLE TRIGGER USER or ALL, which pg_restore --disable-triggers says too, makes it fire where there
// is nothing to tell, and no longer where it must. One that somebody has disabled stays so.
Statement find_misplaced_trigger = {
    R"(SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = 'jobq.jobs'::pg_catalog.regclass
                      AND t.tgname = 'tell_job' AND t.tgenabled = 'O'))",
    {}};
Statement replace_trigger = {"ALTER TABLE jobq.jobs ENABLE REPLICA TRIGGER tell_job", {}, Planning::Free};
// Others who write to the table queue behind us so long.
constexpr const char *kLockTimeout = "50ms";

// After a step of the clock backwards, a heartbeat from the future would shield a dead worker for as long; so might one
// that is missing.
Statement lock_unlikely_heartbeats = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j._rescue_indexed AND j.status = 'processing'
         AND (j.last_heartbeat > greatest($1, clock_timestamp()) + interval '5 seconds' OR j.last_heartbeat IS NULL)
       FOR NO KEY UPDATE SKIP LOCKED)",
    {TIMESTAMPTZOID}};
// $2 as in LEASE_DEADLINE.
Statement get_horizon = {"SELECT min(" DEADLINE R"(), min(j.cancel_requested_at)
       FROM jobq.jobs j WHERE j._rescue_indexed AND j.status = 'processing')",
                         {TIMESTAMPTZOID, TIMESTAMPTZOID}};

Statement get_next_due = {"SELECT j.run_at FROM jobq.jobs j WHERE j._due ORDER BY j.run_at, j.id LIMIT 1", {}};

Statement find_unfinished = {
    R"(SELECT EXISTS (SELECT FROM jobq.jobs j WHERE j._rescue_indexed)
           OR EXISTS (SELECT FROM jobq.jobs j WHERE j._due)
           OR EXISTS (SELECT FROM jobq.jobs j WHERE j._ready))",
    {}};

Statement find_any = {"SELECT 1 FROM jobq.jobs j ORDER BY j.id LIMIT 1", {}};

// A horizon is looked for again after this time at the latest, for changes that nothing has told of.
constexpr core::Micros kLongestHorizon = core::kMinute;

Horizon find_horizon(TimestampTz grace_start) {
    const Rows rows = run(get_horizon, Params().add_null().add(TimestampTzGetDatum(grace_start)));
    const auto at = [&](int column) {
        return rows[0].is_null(column) ? DT_NOEND : DatumGetTimestampTz(rows[0].get(column));
    };
    return {at(1), at(2)};
}

// A running job that the rescue has locked, and why.
struct Ended {
    int64 id;
    enum How { Lost, LostInCompany, GivenBack, Overran, CancelForced } how;
};

constexpr const char *kExecutorEnded = "the process that ran its handler has ended";

const char *lost_error(const core::Life &before, const core::Life &after, int max_lost, bool in_company) {
    const core::Micros span = before.lease_timeout.value_or(core::kUsualLease);
    const bool by_executor = span >= core::kEndlessLease;
    const char *lead =
        by_executor ? kExecutorEnded : psprintf("no heartbeat for %g s", static_cast<double>(span) / core::kSecond);
    if (in_company)
        lead = psprintf("%s, together with other %s", lead, by_executor ? "executors" : "jobs of its worker");
    if (after.status != core::JobStatus::Failed) return lead;
    if (!in_company && after.lost_attempts >= max_lost)
        return psprintf("%s; lost its worker %d time%s (max_lost %d)", lead, after.lost_attempts,
                        after.lost_attempts == 1 ? "" : "s", max_lost);
    return psprintf("%s; attempts exhausted (%d of %d)", lead, after.attempts, after.max_attempts);
}

bool end_lost(JobsTable *jobs, const JobState &before, bool in_company, TimestampTz now, Endings *endings) {
    const int max_lost = find_queue(before.queue)->max_lost;
    core::Event event = {core::EventKind::Lost, now};
    event.in_company = in_company;
    event.max_lost = max_lost;
    const core::Life after = core::after_event(before.life, event);
    text *error = cstring_to_text(lost_error(before.life, after, max_lost, in_company));
    return end_attempt(jobs, before, after, {AttemptOutcome::Lost, error, false}, now, endings);
}

// The attempt does not count.
bool end_given_back(JobsTable *jobs, const JobState &before, TimestampTz now, Endings *endings) {
    return end_attempt(jobs, before, core::after_event(before.life, {core::EventKind::Released, now}),
                       {AttemptOutcome::Released, cstring_to_text(kExecutorEnded), false}, now, endings);
}

bool end_forced(JobsTable *jobs, const JobState &before, TimestampTz now, Endings *endings) {
    text *error = cstring_to_text("cancelled while running: its worker did not stop in time");
    return end_attempt(jobs, before, core::after_event(before.life, {core::EventKind::CancelForced, now}),
                       {AttemptOutcome::Cancelled, error, false}, now, endings);
}

bool end_one(JobsTable *jobs, const Ended &ended, TimestampTz now, Endings *endings) {
    const JobState before = state_of(*jobs);
    if (before.life.status != core::JobStatus::Processing) return true;
    switch (ended.how) {
        case Ended::Lost:
        case Ended::LostInCompany:
            return end_lost(jobs, before, ended.how == Ended::LostInCompany, now, endings);
        case Ended::GivenBack:
            return end_given_back(jobs, before, now, endings);
        case Ended::Overran:
            return end_overrun(jobs, before, now, endings);
        case Ended::CancelForced:
            break;
    }
    return end_forced(jobs, before, now, endings);
}

// How long the queue keeps a job of this status.
core::Micros keep_of(const Queue &queue, core::JobStatus status) {
    return status == core::JobStatus::Completed ? queue.keep_completed : queue.keep_failed;
}

// The shortest retention of any queue: nothing younger than that can have expired.
Statement get_shortest_keep = {
    "SELECT least(min(s.keep_completed), min(s.keep_failed)) FROM jobq.queue_settings s", {}, Planning::Free};

core::Micros shortest_keep() {
    const Rows rows = run(get_shortest_keep, Params());
    constexpr core::Micros defaults = Min(core::kDefaultSettings.keep_completed, core::kDefaultSettings.keep_failed);
    if (rows[0].is_null(1)) return defaults;
    return Min(defaults, span_of(DatumGetIntervalP(rows[0].get(1))));
}

struct Page {
    int64 last_id;
    bool full;
    bool all_young;  // nothing on it can have expired
    Datum *ids;
    Datum *finished;
    int count;  // expired
};

Page read_prune_page(int64 after, TimestampTz now, int batch) {
    const core::Micros shortest = shortest_keep();
    const Rows rows = run(read_page, Params().add(Int64GetDatum(after)).add(Int64GetDatum(batch)));
    Page page = {after, rows.size() == static_cast<uint64>(batch), true, nullptr, nullptr, 0};
    page.ids = static_cast<Datum *>(palloc(sizeof(Datum) * (rows.size() + 1)));
    page.finished = static_cast<Datum *>(palloc(sizeof(Datum) * (rows.size() + 1)));
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        page.last_id = row.int64_at(1);
        const Queue *queue = find_queue(row.text_at(2));
        if (core::saturating_add(DatumGetTimestampTz(row.get(5)), shortest) < now) page.all_young = false;
        const core::JobStatus status = status_at(row, 3);
        if (!core::is_finished(status) || row.is_null(4)) continue;
        const core::Micros expires = core::saturating_add(DatumGetTimestampTz(row.get(4)), keep_of(*queue, status));
        if (expires >= now) continue;
        page.ids[page.count] = row.get(1);
        page.finished[page.count++] = row.get(4);
    }
    page.count = without_needed(page.ids, page.finished, page.count);
    return page;
}

// Changes the jobs of a batch, leaving out those that cannot be changed. id(i) names one of them.
template <typename Change, typename Id>
void change_jobs(int count, Change change, Id id, DutyOutcome *outcome) {
    change_all_or_each(
        count, change, [&](int) { outcome->done++; },
        [&](int i, const FailureText &failure) { leave_out(outcome, id(i), failure); });
}

void end_all(const Ended *ended, int count, TimestampTz now, DutyOutcome *outcome) {
    change_jobs(
        count,
        [&](int first, int n) {
            Endings endings = {};
            change_locked_jobs(
                n, [&](int i) { return ended[first + i].id; },
                [&](JobsTable *jobs, int i) { return end_one(jobs, ended[first + i], now, &endings); });
            settle_endings(endings, now);
        },
        [&](int i) { return ended[i].id; }, outcome);
}

// Lets an event happen to jobs that a statement has locked: its rows begin with their ids.
void let_happen_to_each(const Rows &locked, const core::Event &event, DutyOutcome *outcome) {
    auto *ids = room_for<Datum>(locked.size());
    for (uint64 i = 0; i < locked.size(); i++) ids[i] = locked[i].get(1);
    change_jobs(
        static_cast<int>(locked.size()), [&](int first, int n) { let_happen(ids + first, n, event); },
        [&](int i) { return DatumGetInt64(ids[i]); }, outcome);
}

Ended::How how_ended(core::OrphanEnd end) {
    switch (end) {
        case core::OrphanEnd::Lost:
            return Ended::Lost;
        case core::OrphanEnd::LostInCompany:
            return Ended::LostInCompany;
        case core::OrphanEnd::Overran:
            return Ended::Overran;
        case core::OrphanEnd::GivenBack:
            break;
    }
    return Ended::GivenBack;
}

// Ends the attempts whose executors have gone. `search`: in the whole rescue's index, too.
void end_orphans(TimestampTz now, bool search, int batch, DutyOutcome *outcome) {
    const Orphans orphans = lock_orphans(search, batch);
    auto *ended = room_for<Ended>(static_cast<uint64>(orphans.count));
    for (int i = 0; i < orphans.count; i++) ended[i] = {orphans.items[i].job, how_ended(orphans.items[i].end)};
    end_all(ended, orphans.count, now, outcome);
    outcome->more |= orphans.count == batch;
}

// Which of the locked jobs were lost together with others. Tells it of the others, too.
const bool *judge_losses(const Rows &rows, Snapshot before, DutyOutcome *outcome) {
    const int count = static_cast<int>(rows.size());
    if (count == 0) return nullptr;
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *lost = static_cast<bool *>(palloc(sizeof(bool) * count));
    for (int i = 0; i < count; i++) {
        ids[i] = rows[i].get(1);
        lost[i] = !rows[i].bool_at(2);
    }
    const Company company = find_company_of(ids, lost, count, before);
    const int64 done = outcome->done;
    change_jobs(
        company.count, [&](int first, int n) { mark_company(company.ids + first, company.leases + first, n); },
        [&](int i) { return DatumGetInt64(company.ids[i]); }, outcome);
    outcome->done = done;
    return company.lost_together;
}

// Marks the running jobs whose time as young leases is over, at most `batch`. Those that somebody holds hold up no
// other.
void index_due_leases(TimestampTz now, int batch, DutyOutcome *outcome) {
    // An old snapshot would not see what must be judged.
    if (IsolationUsesXactSnapshot()) return;
    auto *due = room_for<YoungLease>(static_cast<uint64>(max_recent_claims()));
    const int count = due_leases(now, due, max_recent_claims());
    int settled = 0;
    change_jobs(
        count, [&](int first, int n) { settled += index_leases(due + first, n, batch - settled); },
        [&](int i) { return due[i].job; }, outcome);
    outcome->more = settled == batch;
    outcome->done = 0;
}

// Enters the lane of the first job there is among the entries of one, from *key on, which goes on with them; returns
// which that is.
int64 enter_lane_of(JobsTable *jobs, int64 entries_of, core::ClaimKey *key, int *entries, DutyOutcome *outcome) {
    seek_ready(jobs, entries_of, *key);
    while (*entries > 0 && next_ready(jobs, key)) {
        CHECK_FOR_INTERRUPTS();
        --*entries;
        if (!fetch_ready(jobs)) continue;
        ArrayType *required =
            job_has(*jobs, kJobRequires) ? DatumGetArrayTypeP(job_value(*jobs, kJobRequires)) : nullptr;
        int64 lane = 0;
        FailureText failure;
        // Came behind the triggers, which check names.
        const auto enter = [&] {
            lane = ensure_lane(view(DatumGetTextPP(job_value(*jobs, kJobQueue))),
                               view(DatumGetTextPP(job_value(*jobs, kJobKind))),
                               DatumGetInt32(job_value(*jobs, kJobVersion)), required);
        };
        if (!attempt(enter, &failure)) leave_out(outcome, key->id, failure);
        return lane;
    }
    return 0;
}

// Steps from lane to lane through the claim index, whatever jobs its entries are of: the cost follows the number of
// lanes. Only of a lane that the directory lacks are the entries read.
void add_missing_lanes(DutyOutcome *outcome) {
    Datum lanes[kLanesAtOnce];
    int count = kLanesAtOnce;
    int entries = kMissingPiece;
    auto from = missing_from;
    missing_from = {PG_INT64_MIN, core::kFirstKey};
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int64 lane = from.lane == PG_INT64_MIN ? from.lane : from.lane - 1; count == kLanesAtOnce && entries > 0;) {
        for (count = 0; count < kLanesAtOnce && next_lane(&jobs, &lane);) lanes[count++] = Int64GetDatum(lane);
        if (count == 0) break;
        Rows missing = run(find_missing_lanes, Params().add(array_of(lanes, count, INT8OID)));
        // Behind the look at the directory: a queue that was dropped before it has no jobs either.
        if (missing.size() > 0) renew_snapshot(&jobs);
        for (uint64 i = 0; i < missing.size() && entries > 0; i++) {
            const int64 id = missing[i].int64_at(1);
            if (id != from.lane) from = {id, core::kFirstKey};
            if (enter_lane_of(&jobs, id, &from.key, &entries, outcome) == id) outcome->done++;
        }
        missing.free();
    }
    close_jobs(&jobs);
    if (entries > 0) return;
    missing_from = from;
    outcome->goes_on = outcome->unread = true;
}

void pull_back_heartbeats_from_future(TimestampTz now, DutyOutcome *outcome) {
    const Rows rows = run(lock_unlikely_heartbeats, Params().add(TimestampTzGetDatum(now)));
    const int64 done_before = outcome->done;
    let_happen_to_each(rows, {core::EventKind::Heartbeat, GetCurrentTimestamp()}, outcome);
    // Their leases run out earlier now than the rescue has seen.
    if (outcome->done > done_before) log_lease_deadline(DT_NOBEGIN);
}

void restore_trigger() {
    if (trigger_epoch() != kNoEpoch || !run(find_misplaced_trigger, Params())[0].bool_at(1)) return;
    FailureText failure;
    const int nest_level = NewGUCNestLevel();
    set_config_option("lock_timeout", kLockTimeout, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    // Another time, when somebody is in the way.
    attempt([] { run(replace_trigger, Params()); }, &failure);
    AtEOXact_GUC(true, nest_level);
}

// Changes rows of another table than jobq.jobs. Where that fails, and so will the next time, the duty goes on without.
template <typename Change>
void change_beside(const char *table, Change change, DutyOutcome *outcome) {
    FailureText failure;
    if (!attempt(change, &failure) && outcome->failed++ == 0)
        snprintf(outcome->error, sizeof(outcome->error), "%s: %s", table, failure.message);
}

TimestampTz signals_kept_since(TimestampTz now) {
    return settings.keep_signals_s == 0 ? DT_NOBEGIN
                                        : core::saturating_subtract(now, settings.keep_signals_s * core::kSecond);
}

void delete_page(const Page &page, DutyOutcome *outcome) {
    FailureText failure;
    if (page.count == 0) return;
    // What stops them all is not tried with each.
    if (!attempt([] { require_deletable_jobs(); }, &failure)) {
        leave_out(outcome, DatumGetInt64(page.ids[0]), failure);
        return;
    }
    const Rows locked = run(
        lock_unkept,
        Params().add(array_of(page.ids, page.count, INT8OID)).add(array_of(page.finished, page.count, TIMESTAMPTZOID)));
    for (uint64 i = 0; i < locked.size(); i++) page.ids[i] = locked[i].get(1);
    change_jobs(
        static_cast<int>(locked.size()), [&](int first, int n) { delete_jobs_and_attempts(page.ids + first, n); },
        [&](int i) { return DatumGetInt64(page.ids[i]); }, outcome);
}

}  // namespace

DutyOutcome rescue_expired(TimestampTz now, TimestampTz requested_before, TimestampTz grace_start, int batch) {
    DutyOutcome outcome = {};
    const UnindexedSearch search = find_unindexed_jobs();
    if (search.left_out != 0) leave_out(&outcome, search.left_out, search.failure);
    index_due_leases(now, batch, &outcome);
    // Who is lost together is told by those that are rescue-indexed.
    if (outcome.more) return outcome;
    const Horizon known = horizon();
    const bool looks = search.looked || known.deadline <= now || known.cancel_asked < requested_before;
    end_orphans(now, looks, batch, &outcome);
    if (!looks) return outcome;
    const uint64 version = begin_horizon_scan();
    Snapshot before = RegisterSnapshot(GetLatestSnapshot());
    const Rows rows =
        run(lock_expired,
            Params().add(TimestampTzGetDatum(now)).add(TimestampTzGetDatum(grace_start)).add(Int64GetDatum(batch)));
    const bool *lost_together = judge_losses(rows, before, &outcome);
    UnregisterSnapshot(before);
    auto *ended = room_for<Ended>(rows.size());
    for (uint64 i = 0; i < rows.size(); i++)
        ended[i] = {rows[i].int64_at(1), rows[i].bool_at(2) ? Ended::Overran
                                         : lost_together[i] ? Ended::LostInCompany
                                                            : Ended::Lost};
    end_all(ended, static_cast<int>(rows.size()), now, &outcome);
    if (rows.size() < static_cast<uint64>(batch) && version != 0) {
        const Horizon found = find_horizon(grace_start);
        log_horizon(version, {Min(found.deadline, GetCurrentTimestamp() + kLongestHorizon), found.cancel_asked});
    }
    if (rows.size() == static_cast<uint64>(batch) && outcome.done > 0) outcome.more = true;
    return outcome;
}

DutyOutcome cancel_overdue(TimestampTz now, TimestampTz requested_before, int batch) {
    const Horizon known = horizon();
    if (known.deadline != DT_NOBEGIN && known.cancel_asked >= requested_before) return {};
    const Rows rows = run(lock_overdue, Params().add(TimestampTzGetDatum(requested_before)).add(Int64GetDatum(batch)));
    auto *ended = room_for<Ended>(rows.size());
    for (uint64 i = 0; i < rows.size(); i++) ended[i] = {rows[i].int64_at(1), Ended::CancelForced};
    DutyOutcome outcome = {};
    end_all(ended, static_cast<int>(rows.size()), now, &outcome);
    outcome.more = rows.size() == static_cast<uint64>(batch) && outcome.done > 0;
    return outcome;
}

DutyOutcome promote_due(TimestampTz now, int batch) {
    const Rows due = run(lock_due, Params().add(TimestampTzGetDatum(now)).add(Int64GetDatum(batch)));
    DutyOutcome outcome = {};
    let_happen_to_each(due, {core::EventKind::Due, now}, &outcome);
    outcome.more = due.size() == static_cast<uint64>(batch) && outcome.done > 0;
    return outcome;
}

DutyOutcome prune_finished(TimestampTz now, int batch) {
    DutyOutcome outcome = {};
    // An old snapshot does not show who has come to need a job.
    if (IsolationUsesXactSnapshot()) return outcome;
    bool more_keys = false;
    change_beside(
        "jobq.kept_keys", [&] { more_keys = prune_kept_keys(now, batch); }, &outcome);
    change_beside(
        "jobq.deleted_dependencies", [&] { prune_deleted_dependencies(batch); }, &outcome);
    bool more_signals = false;
    change_beside(
        "jobq.signals", [&] { more_signals = prune_signals(signals_kept_since(now), batch); }, &outcome);
    more_keys |= more_signals;
    outcome.more = more_keys;
    const Rows state = run(get_prune_position, Params());
    if (state.size() == 0) return outcome;
    const Page page = read_prune_page(state[0].int64_at(1), now, batch);
    delete_page(page, &outcome);
    // Ids are given out in the order of time, nearly: behind a page of young jobs there are only younger ones.
    const bool ends = !page.full || page.all_young;
    outcome.unread = !ends;
    outcome.more = more_keys || (!ends && outcome.done * 4 >= batch);
    int64 lap_after = 0;
    if (ends && page.full) {
        // Nearly: an imported history has old jobs behind young ones. A page a time, the slow lap gets there too.
        const Page lap = read_prune_page(Max(state[0].int64_at(2), page.last_id), now, batch);
        delete_page(lap, &outcome);
        lap_after = lap.full ? lap.last_id : 0;
        outcome.lapping = lap.full;
    }
    run(set_prune_position, Params().add(Int64GetDatum(ends ? 0 : page.last_id)).add(Int64GetDatum(lap_after)));
    return outcome;
}

DutyOutcome repair(TimestampTz now, TimestampTz grace_start) {
    DutyOutcome outcome = {};
    restore_trigger();
    add_missing_lanes(&outcome);
    if (heartbeats_doubtful(grace_start)) {
        pull_back_heartbeats_from_future(now, &outcome);
        if (outcome.failed == 0) heartbeats_checked(grace_start);
    }
    settle_slots(now, &outcome);
    outcome.done += repair_empty_ranges();
    repair_unblocking(now);
    change_beside(
        "jobq.lane_directory", [&] { outcome.goes_on |= retire_lanes(now); }, &outcome);
    return outcome;
}

TimestampTz earliest_deadline(TimestampTz grace_start, core::Micros cancel_grace) {
    Horizon known = horizon();
    if (known.deadline == DT_NOBEGIN) known = find_horizon(grace_start);
    TimestampTz earliest = Min(known.deadline, core::saturating_add(known.cancel_asked, cancel_grace));
    const Rows rows = run(get_next_due, Params());
    if (rows.size() == 1) earliest = Min(earliest, DatumGetTimestampTz(rows[0].get(1)));
    return Min(Min(earliest, next_young_due()), next_search_for_unindexed());
}

bool any_unfinished_job() {
    return next_young_due() != DT_NOEND || run(find_unfinished, Params())[0].bool_at(1) || any_group_waits();
}

bool any_job() { return run(find_any, Params()).size() > 0; }

}  // namespace jobq
