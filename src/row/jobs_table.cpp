// See jobs_table.h.
#include "compat/pg.h"

#include "core/ablation.h"
#include "row/jobs_table.h"

extern "C" {
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

// The number of unique indexes of jobq.jobs that jobq itself creates.
constexpr int kOwnUniques = 2;

void end_scans(JobsTable *jobs) {
    for (IndexScanDesc *scan : {&jobs->by_id, &jobs->attempts.by_job, &jobs->log_lines.by_job}) {
        if (*scan != nullptr) index_endscan(*scan);
        *scan = nullptr;
    }
    if (jobs->by_recent_tid != nullptr) table_index_fetch_end(jobs->by_recent_tid);
    jobs->by_recent_tid = nullptr;
    end_ready_scans(&jobs->ready);
    end_walk(&jobs->walk);
}

// The id and ctid of a job that this session has claimed recently.
struct RecentTid {
    int64 id;
    ItemPointerData tid;
};
constexpr int kRecentTids = 4096;
RecentTid recent_tids[kRecentTids];

RecentTid *recent_tid_of(int64 id) { return &recent_tids[static_cast<uint64>(id) % kRecentTids]; }

// Looks for the job at its remembered ctid. Returns false in REPEATABLE READ and above, because serializable
// transactions need the predicate locks that the index lookup takes.
bool find_at_recent_tid(JobsTable *jobs, int64 id) {
    const RecentTid &recent = *recent_tid_of(id);
    if (recent.id != id || !ItemPointerIsValid(&recent.tid) || IsolationUsesXactSnapshot()) return false;
    // Checks that the block still exists, because the table might have been truncated since the claim. The table cannot
    // shrink now, because it is locked.
    if (jobs->block_count == 0) jobs->block_count = RelationGetNumberOfBlocks(jobs->table.relation);
    if (ItemPointerGetBlockNumber(&recent.tid) >= jobs->block_count) return false;
    if (jobs->by_recent_tid == nullptr) jobs->by_recent_tid = begin_fetch_by_tid(jobs->table.relation);
    ItemPointerData tid = recent.tid;
    bool more = false;
    return table_index_fetch_tuple(jobs->by_recent_tid, &tid, jobs->table.snapshot, jobs->table.row, &more, nullptr) &&
           DatumGetInt64(job_value(*jobs, kJobId)) == id;
}

bool may_have_rows(JobRows *rows, Oid table, Oid index, Snapshot snapshot, int64 job) {
    if (rows->table == nullptr) {
        rows->table = table_open(table, AccessShareLock);
        rows->row = table_slot_create(rows->table, nullptr);
        rows->none = RelationGetNumberOfBlocks(rows->table) == 0;
    }
    if (rows->none) return false;
    if (rows->by_job == nullptr) {
        if (rows->index == nullptr) rows->index = open_whole_index(index);
        if (rows->index == nullptr) return true;
        rows->by_job = begin_index_scan(rows->table, rows->index, snapshot, 1);
    }
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job));
    index_rescan(rows->by_job, &key, 1, nullptr, 0);
    return index_getnext_slot(rows->by_job, ForwardScanDirection, rows->row);
}

}  // namespace

void open_jobs(JobsTable *jobs) {
    memset(static_cast<void *>(jobs), 0, sizeof(*jobs));
    Relation relation = open_jobs_relation(RowExclusiveLock);
    jobs->table = open_table(relation, kJobId, jobs_catalog().attached, jobs_need_sql());
}

void close_jobs(JobsTable *jobs) {
    end_scans(jobs);
    if (jobs->ids != nullptr) index_close(jobs->ids, NoLock);
    close_ready_indexes(&jobs->ready);
    for (const JobRows *rows : {&jobs->attempts, &jobs->log_lines}) {
        if (rows->index != nullptr) index_close(rows->index, NoLock);
        if (rows->row != nullptr) ExecDropSingleTupleTableSlot(rows->row);
        if (rows->table != nullptr) table_close(rows->table, NoLock);
    }
    close_table(&jobs->table);
}

bool open_jobs_if_quiet(JobsTable *jobs) {
    // Makes visible the changes that other sessions or the last statement of this transaction have made to the table.
    CommandCounterIncrement();
    AcceptInvalidationMessages();
    if (!can_read_jobs_catalog()) return false;
    const JobsAccess access = jobs_access();
    if (access.by_sql || access.refused) return false;
    open_jobs(jobs);
    const IndexPlan plan = index_plan_of(jobs->table.relation);
    if (!jobs->table.by_sql && !plan.evaluates && plan.uniques == kOwnUniques) return true;
    close_jobs(jobs);
    return false;
}

void open_jobs_for_reading(JobsTable *jobs) {
    memset(static_cast<void *>(jobs), 0, sizeof(*jobs));
    jobs->table.relation = open_jobs_relation(AccessShareLock);
    jobs->table.attached = jobs_catalog().attached;
    jobs->table.by_sql = jobs_need_sql();
    jobs->table.row = make_row(jobs->table.relation, jobs->table.by_sql);
    jobs->table.snapshot = GetActiveSnapshot();
}

void close_jobs_for_reading(JobsTable *jobs) {
    end_scans(jobs);
    close_ready_indexes(&jobs->ready);
    ExecDropSingleTupleTableSlot(jobs->table.row);
    table_close(jobs->table.relation, NoLock);
}

void require_usable_jobs() {
    JobsTable jobs;
    open_jobs_for_reading(&jobs);
    close_jobs_for_reading(&jobs);
}

void renew_snapshot(JobsTable *jobs) {
    end_scans(jobs);
    take_snapshot(&jobs->table);
}

void remember_tid(const JobsTable &jobs, int64 id) {
    if constexpr (!core::built_with(core::Mechanism::PlaceCache)) return;
    if (!jobs.table.by_sql) *recent_tid_of(id) = {id, jobs.table.changed->tts_tid};
}

bool find_job(JobsTable *jobs, int64 id) {
    if (jobs->table.by_sql) return find_job_by_sql(&jobs->table, id);
    if (find_at_recent_tid(jobs, id)) return true;
    if (jobs->by_id == nullptr) {
        if (jobs->ids == nullptr) jobs->ids = open_job_index(JobIndex::Ids);
        jobs->by_id = begin_index_scan(jobs->table.relation, jobs->ids, jobs->table.snapshot, 1);
    }
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
    index_rescan(jobs->by_id, &key, 1, nullptr, 0);
    return index_getnext_slot(jobs->by_id, ForwardScanDirection, jobs->table.row);
}

bool may_have_history(JobsTable *jobs, int64 id) {
    const JobsCatalog &catalog = jobs_catalog();
    Snapshot snapshot = jobs->table.snapshot;
    return may_have_rows(&jobs->attempts, catalog.attempts, catalog.attempts_index, snapshot, id) ||
           may_have_rows(&jobs->log_lines, catalog.log_lines, catalog.log_lines_index, snapshot, id);
}

}  // namespace jobq
