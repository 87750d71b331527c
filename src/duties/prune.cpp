// The duty "prune", which deletes the following rows when their retention period is over: finished jobs, kept keys,
// signals, and batches. It also deletes log lines that were committed after their job had been deleted.
#include "compat/pg.h"

#include "batches/settle.h"
#include "compat/args.h"
#include "compat/memory.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "core/key_space.h"
#include "duties/change_jobs.h"
#include "duties/duties.h"
#include "edges/edges.h"
#include "finish/ending.h"
#include "finish/kept_keys.h"
#include "finish/log_lines.h"
#include "finish/references.h"
#include "lanes/empty_ranges_policy.h"
#include "log/rows.h"
#include "queues/directory.h"
#include "steps/signals.h"

namespace jobq {

namespace {

// Selects a page of jobs in the order of the primary key. An index on finished_at would make this faster, but would
// slow down every completion. The failed head of a halted group counts as unfinished.
Statement read_page = {
    R"(SELECT j.id, j.queue, j.status::text, CASE WHEN j._group_active IS NULL THEN j.finished_at END,
              j.created_at, j.kind
       FROM jobq.jobs j WHERE j.id > $1 AND j.id < $3 ORDER BY j.id LIMIT $2)",
    {INT8OID, INT8OID, INT8OID}};

// Locks expired jobs before they are deleted. Skips a job whose finished_at has changed, because that job was retried
// in the meantime.
Statement lock_unkept = {
    R"(SELECT j.id FROM unnest($1, $2) AS u(id, finished_at),
            LATERAL (SELECT j.id FROM jobq.jobs j
                     WHERE j.id = u.id AND j.finished_at = u.finished_at AND j.status <> 'processing'
                     FOR UPDATE SKIP LOCKED) j)",
    {INT8ARRAYOID, TIMESTAMPTZARRAYOID}};

// Selects and locks the position at which the prune continues. Returns no row if another tick is pruning.
Statement get_prune_position = {
    "SELECT t.prune_after FROM jobq.tick_state t FOR UPDATE SKIP LOCKED", {}, Planning::Free};
Statement set_prune_position = {
    "UPDATE jobq.tick_state t SET prune_after = $1, lap_after = $2 WHERE (t.prune_after, t.lap_after) <> ($1, $2)",
    {INT8OID, INT8OID},
    Planning::Free};

// Returns how long a finished job with this status is kept.
core::Micros keep_of(const core::QueueSettings &settings, core::JobStatus status) {
    return status == core::JobStatus::Completed ? settings.keep_completed : settings.keep_failed;
}

// Selects the shortest retention period of all queues and kinds. A job that is younger than this period cannot have
// expired.
Statement get_shortest_keep = {
    R"(SELECT least(min(s.keep_completed), min(s.keep_failed))
       FROM (SELECT q.keep_completed, q.keep_failed FROM jobq.queue_settings q
             UNION ALL SELECT k.keep_completed, k.keep_failed FROM jobq.kind_settings k) s)",
    {},
    Planning::Free};

core::Micros shortest_keep() {
    const Rows rows = run(get_shortest_keep, Params());
    constexpr core::Micros defaults = Min(core::kDefaultSettings.keep_completed, core::kDefaultSettings.keep_failed);
    if (rows[0].is_null(1)) return defaults;
    return Min(defaults, span_of(DatumGetIntervalP(rows[0].get(1))));
}

struct Page {
    int64 after;  // the page contains jobs with higher ids
    int64 last_id;
    bool full;
    bool all_young;  // no job in the page can have expired
    Datum *ids;
    Datum *finished;
    int count;  // number of expired jobs in the page
};

// Ranges of ids in which the latest searches of this process found no rows. The next searches skip these ranges;
// otherwise, each search would read the index entries that deleted jobs leave in the primary key while an old snapshot
// exists. However, a transaction that commits late can insert a job into such a range. Therefore, the process discards
// the ranges from time to time and searches the whole table again. The time between two such searches is long compared
// to the duration of the longest search.
class Gaps {
 public:
    const core::EmptyRanges &begin(TimestampTz now) {
        if (MyBackendType != B_BG_WORKER || now < forgotten_at_ || now - forgotten_at_ > kRest * longest_) {
            ids_ = {};
            forgotten_at_ = now;
            longest_ = 0;
        }
        began_ = now;
        return ids_;
    }
    // Records that no job has an id greater than `after` and less than `before`.
    void add(int64 after, int64 before) {
        if (before - after > kWorthKeeping)
            core::add_empty(&ids_, {core::running_key(after + 1), core::running_key(before)}, before - after);
    }
    void end(TimestampTz now) { longest_ = Max(longest_, now - began_); }

 private:
    static constexpr int kRest = 500;
    static constexpr int64 kWorthKeeping = 64;
    core::EmptyRanges ids_;
    TimestampTz forgotten_at_, began_;
    core::Micros longest_;
};
Gaps gaps;

// Adds the job in this row to the page if the job's retention period is over.
void add_to_page(Page *page, const Row &row, core::Micros shortest, TimestampTz now) {
    page->last_id = row.int64_at(1);
    if (core::saturating_add(DatumGetTimestampTz(row.get(5)), shortest) < now) page->all_young = false;
    const core::JobStatus status = status_at(row, 3);
    if (!core::is_finished(status) || row.is_null(4)) return;
    const core::QueueSettings &settings = settings_for(*find_queue(row.text_at(2)), row.text_at(6));
    const core::Micros expires = core::saturating_add(DatumGetTimestampTz(row.get(4)), keep_of(settings, status));
    if (expires >= now) return;
    page->ids[page->count] = row.get(1);
    page->finished[page->count++] = row.get(4);
}

Page read_prune_page(int64 after, TimestampTz now, int batch) {
    const core::Micros shortest = shortest_keep();
    const core::EmptyRanges empty = gaps.begin(GetCurrentTimestamp());
    // Reads the last job id before the snapshot is taken, so that ids that are assigned later do not count as searched.
    const int64 last_given = last_job_id();
    Page page = {};
    page.after = page.last_id = after;
    page.all_young = true;
    page.ids = allocate_array<Datum>(static_cast<uint64>(batch));
    page.finished = allocate_array<Datum>(static_cast<uint64>(batch));
    int left = batch;
    for (core::KeyRange keys = core::next_possible(empty, core::running_key(after + 1));
         left > 0 && keys.from < keys.to; keys = core::next_possible(empty, keys.to)) {
        int64 previous = keys.from.id - 1;
        const Rows rows = run(
            read_page, Params().add(Int64GetDatum(previous)).add(Int64GetDatum(left)).add(Int64GetDatum(keys.to.id)));
        for (uint64 i = 0; i < rows.size(); i++) {
            gaps.add(previous, rows[i].int64_at(1));
            previous = rows[i].int64_at(1);
            add_to_page(&page, rows[i], shortest, now);
        }
        if (rows.size() < static_cast<uint64>(left)) gaps.add(previous, Min(keys.to.id, last_given + 1));
        left -= static_cast<int>(rows.size());
    }
    page.full = left == 0;
    gaps.end(GetCurrentTimestamp());
    page.count = without_needed(page.ids, page.finished, page.count);
    return page;
}

TimestampTz signals_kept_since(TimestampTz now) {
    return settings.keep_signals_s == 0 ? DT_NOBEGIN
                                        : core::saturating_subtract(now, settings.keep_signals_s * core::kSecond);
}

void delete_page(const Page &page, int batch, DutyOutcome *outcome) {
    FailureText failure;
    change_beside(
        "jobq.log_lines", [&] { prune_log_lines(page.after, page.full ? page.last_id : PG_INT64_MAX, batch); },
        outcome);
    if (page.count == 0) return;
    // If an error makes it impossible to delete any job, reports the error once and does not try to delete each job
    // separately.
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

DutyOutcome prune_finished(TimestampTz now, int batch) {
    DutyOutcome outcome = {};
    // Does nothing under an old snapshot, because such a snapshot does not show newer jobs, which might depend on a
    // finished job.
    if (IsolationUsesXactSnapshot()) return outcome;
    bool more = false;
    change_beside(
        "jobq.kept_keys", [&] { more |= prune_kept_keys(now, batch); }, &outcome);
    change_beside(
        "jobq.deleted_dependencies", [&] { prune_deleted_dependencies(batch); }, &outcome);
    change_beside(
        "jobq.signals", [&] { more |= prune_signals(signals_kept_since(now), batch); }, &outcome);
    change_beside(
        "jobq.batch_settings", [&] { more |= prune_batches(now, batch); }, &outcome);
    outcome.more = more;
    const Rows state = run(get_prune_position, Params());
    if (state.size() == 0) return outcome;
    const Page page = read_prune_page(state[0].int64_at(1), now, batch);
    delete_page(page, batch, &outcome);
    // Ids are assigned in nearly chronological order. So if all jobs in a page are young, the jobs after this page are
    // even younger, and the search ends.
    const bool ends = !page.full || page.all_young;
    outcome.unread = !ends;
    outcome.more = more || (!ends && outcome.done * 4 >= batch);
    int64 lap_after = 0;
    if (ends && page.full) {
        // Imported jobs can be old although their ids are high. To find such jobs, too, a second, slower scan reads one
        // page of the remaining ids per batch.
        const Page lap = read_prune_page(Max(state[0].int64_at(2), page.last_id), now, batch);
        delete_page(lap, batch, &outcome);
        lap_after = lap.full ? lap.last_id : 0;
        outcome.lapping = lap.full;
    }
    run(set_prune_position, Params().add(Int64GetDatum(ends ? 0 : page.last_id)).add(Int64GetDatum(lap_after)));
    return outcome;
}

}  // namespace jobq
