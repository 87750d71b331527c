// See jobs_table.h.
#include "pg/pg.h"

#include "shared/marks.h"
#include "store/jobs_table.h"

#include <algorithm>

extern "C" {
#include "catalog/pg_trigger.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"
}

namespace jobq {

namespace {

constexpr const char *kNames[kJobColumns] = {"id",
                                             "created_at",
                                             "lane",
                                             "max_attempts",
                                             "version",
                                             "priority",
                                             "queue",
                                             "kind",
                                             "payload",
                                             "metadata",
                                             "requires",
                                             "heartbeat_timeout",
                                             "max_runtime",
                                             "unique_key",
                                             "unique_for",
                                             "group_key",
                                             "concurrency_key",
                                             "run_at",
                                             "ready_at",
                                             "due_at",
                                             "unique_held",
                                             "status",
                                             "attempts",
                                             "lost_attempts",
                                             "company_lease",
                                             "lease",
                                             "completed_lease",
                                             "claim_xid",
                                             "started_at",
                                             "last_heartbeat",
                                             "finished_at",
                                             "lease_timeout",
                                             "cancel_requested_at",
                                             "watched",
                                             "worker_id",
                                             "error",
                                             "progress",
                                             "result",
                                             "dead_from",
                                             "must_end_at",
                                             "queue_slot",
                                             "key_slot",
                                             "slot_seq",
                                             "group_waiting",
                                             "group_active",
                                             "turn"};

// What the session knows of the catalogue.
struct Known {
    bool valid;
    Oid schema, table, ids, ready, turns;
    Oid attempts, attempts_index;  // the index: InvalidOid when somebody dropped it
    uint64 epoch;
    Oid id_sequence;
    Oid statuses[core::kJobStatusCount];
};
Known known;
bool callback_registered = false;

void forget(Datum, Oid relation) {
    if (relation == InvalidOid || relation == known.table || relation == known.attempts) known.valid = false;
}

void forget_types(Datum, int, uint32) { known.valid = false; }

[[noreturn]] void unknown_table() {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("table jobq.jobs is not as this version of the library expects it"),
                    errhint("Install the extension's files of one version and run ALTER EXTENSION jobq UPDATE.")));
    pg_unreachable();
}

void check_columns(Relation table) {
    TupleDesc desc = RelationGetDescr(table);
    if (desc->natts < kJobColumns) unknown_table();
    for (int i = 0; i < kJobColumns; i++)
        if (strcmp(NameStr(TupleDescAttr(desc, i)->attname), kNames[i]) != 0) unknown_table();
}

Oid status_value(Oid type, core::JobStatus status) {
    return DatumGetObjectId(
        DirectFunctionCall2(enum_in, CStringGetDatum(core::status_name(status)), ObjectIdGetDatum(type)));
}

// The triggers that tell of changes by hand, and whether one fires where it must.
bool tells_of_changes(const FormData_pg_trigger &trigger) {
    const char *name = NameStr(trigger.tgname);
    const bool always = trigger.tgenabled == TRIGGER_FIRES_ALWAYS;
    if (strcmp(name, "count_job") == 0 || strcmp(name, "follow_job") == 0)
        return always || trigger.tgenabled == TRIGGER_FIRES_ON_ORIGIN;
    return strcmp(name, "tell_job") == 0 && (always || trigger.tgenabled == TRIGGER_FIRES_ON_REPLICA);
}
constexpr int kTellingTriggers = 3;

// A number made of which versions of their rows in the catalogue these triggers have; none comes again.
uint64 epoch_of(Oid table) {
    struct {
        Oid trigger;
        TransactionId changed;
        BlockNumber block;
        uint32 offset;
    } version = {};
    uint64 epoch = 1;
    int telling = 0;
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(table));
    Relation triggers = table_open(TriggerRelationId, AccessShareLock);
    SysScanDesc scan = systable_beginscan(triggers, TriggerRelidNameIndexId, true, nullptr, 1, &key);
    while (HeapTuple row = systable_getnext(scan)) {
        const auto *trigger = reinterpret_cast<const FormData_pg_trigger *>(GETSTRUCT(row));
        if (!tells_of_changes(*trigger)) continue;
        const TransactionId changed = HeapTupleHeaderGetRawXmin(row->t_data);
        if (TransactionIdIsCurrentTransactionId(changed)) continue;
        telling++;
        version = {trigger->oid, changed, ItemPointerGetBlockNumber(&row->t_self),
                   ItemPointerGetOffsetNumber(&row->t_self)};
        epoch = hash_combine64(
            epoch, hash_bytes_extended(reinterpret_cast<const unsigned char *>(&version), sizeof(version), 0));
    }
    systable_endscan(scan);
    table_close(triggers, AccessShareLock);
    if (telling < kTellingTriggers) return kNoMarks;
    return epoch == kNoMarks ? 1 : epoch;
}

void look_up() {
    if (!callback_registered) {
        CacheRegisterRelcacheCallback(forget, Datum(0));
        CacheRegisterSyscacheCallback(ENUMOID, forget_types, Datum(0));
        CacheRegisterSyscacheCallback(NAMESPACEOID, forget_types, Datum(0));
        callback_registered = true;
    }
    known.schema = get_namespace_oid("jobq", false);
    known.table = get_relname_relid("jobs", known.schema);
    known.ids = get_relname_relid("jobs_pkey", known.schema);
    known.ready = get_relname_relid("jobs_ready_idx", known.schema);
    known.turns = get_relname_relid("jobs_turn_idx", known.schema);
    known.attempts = get_relname_relid("attempts", known.schema);
    known.attempts_index = get_relname_relid("attempts_job_idx", known.schema);
    if (!OidIsValid(known.table) || !OidIsValid(known.ids) || !OidIsValid(known.ready) || !OidIsValid(known.attempts))
        unknown_table();
    Relation table = table_open(known.table, AccessShareLock);
    check_columns(table);
    known.epoch = epoch_of(known.table);
    known.id_sequence = identity_sequence(table, kJobId);
    const Oid type = TupleDescAttr(RelationGetDescr(table), kJobStatus - 1)->atttypid;
    table_close(table, NoLock);
    for (int i = 0; i < core::kJobStatusCount; i++)
        known.statuses[i] = status_value(type, static_cast<core::JobStatus>(i));
    known.valid = true;
}

void end_scans(JobsTable *jobs) {
    if (jobs->by_id != nullptr) index_endscan(jobs->by_id);
    if (jobs->attempts_by_job != nullptr) index_endscan(jobs->attempts_by_job);
    jobs->by_id = jobs->attempts_by_job = nullptr;
    if (jobs->by_place != nullptr) table_index_fetch_end(jobs->by_place);
    jobs->by_place = nullptr;
    end_ready_scans(&jobs->ready);
}

// Where this session's latest claims are.
struct Place {
    int64 id;
    ItemPointerData tid;
};
constexpr int kPlaces = 4096;
Place places[kPlaces];

Place *place_of(int64 id) { return &places[static_cast<uint64>(id) % kPlaces]; }

// In the transaction's snapshot of REPEATABLE READ and above the way through the index is part of what is serialised.
bool find_in_place(JobsTable *jobs, int64 id) {
    const Place &place = *place_of(id);
    if (place.id != id || !ItemPointerIsValid(&place.tid) || IsolationUsesXactSnapshot()) return false;
    // The table may have been truncated since; while we have it locked it does not get shorter.
    if (jobs->block_count == 0) jobs->block_count = RelationGetNumberOfBlocks(jobs->table.relation);
    if (ItemPointerGetBlockNumber(&place.tid) >= jobs->block_count) return false;
    if (jobs->by_place == nullptr) jobs->by_place = table_index_fetch_begin(jobs->table.relation);
    ItemPointerData tid = place.tid;
    bool more = false;
    return table_index_fetch_tuple(jobs->by_place, &tid, jobs->table.snapshot, jobs->table.row, &more, nullptr) &&
           DatumGetInt64(job_value(*jobs, kJobId)) == id;
}

ReadyScan *open_ready(JobsTable *jobs) {
    if (jobs->ready.index == nullptr) jobs->ready.index = index_open(known.ready, AccessShareLock);
    return &jobs->ready;
}

ReadyScan *open_turns(JobsTable *jobs) {
    if (jobs->ready.turns == nullptr) jobs->ready.turns = index_open(known.turns, AccessShareLock);
    return &jobs->ready;
}

}  // namespace

void open_jobs(JobsTable *jobs) {
    memset(static_cast<void *>(jobs), 0, sizeof(*jobs));
    // Taking the lock on the table reads what others have changed in the catalogue.
    if (!known.valid) look_up();
    jobs->table = open_table(known.table);
    if (!known.valid) look_up();
}

void close_jobs(JobsTable *jobs) {
    end_scans(jobs);
    if (jobs->ids != nullptr) index_close(jobs->ids, NoLock);
    if (jobs->ready.index != nullptr) index_close(jobs->ready.index, NoLock);
    if (jobs->ready.turns != nullptr) index_close(jobs->ready.turns, NoLock);
    if (jobs->attempts_index != nullptr) index_close(jobs->attempts_index, NoLock);
    if (jobs->attempt != nullptr) ExecDropSingleTupleTableSlot(jobs->attempt);
    if (jobs->attempts != nullptr) table_close(jobs->attempts, NoLock);
    close_table(&jobs->table);
}

void open_jobs_for_reading(JobsTable *jobs) {
    memset(static_cast<void *>(jobs), 0, sizeof(*jobs));
    if (!known.valid) look_up();
    jobs->table.relation = table_open(known.table, AccessShareLock);
    if (!known.valid) look_up();
    jobs->table.row = table_slot_create(jobs->table.relation, nullptr);
    jobs->table.snapshot = GetActiveSnapshot();
}

void close_jobs_for_reading(JobsTable *jobs) {
    end_scans(jobs);
    if (jobs->ready.index != nullptr) index_close(jobs->ready.index, NoLock);
    ExecDropSingleTupleTableSlot(jobs->table.row);
    table_close(jobs->table.relation, NoLock);
}

uint64 marks_epoch() {
    // A transaction that has not locked the table yet may not have heard of changes of its triggers.
    AcceptInvalidationMessages();
    if (!known.valid) look_up();
    return known.epoch;
}

void renew_snapshot(JobsTable *jobs) {
    end_scans(jobs);
    take_snapshot(&jobs->table);
}

void remember_place(const JobsTable &jobs, int64 id) { *place_of(id) = {id, jobs.table.changed->tts_tid}; }

bool find_job(JobsTable *jobs, int64 id) {
    if (find_in_place(jobs, id)) return true;
    if (jobs->by_id == nullptr) {
        if (jobs->ids == nullptr) jobs->ids = index_open(known.ids, AccessShareLock);
        jobs->by_id = begin_index_scan(jobs->table.relation, jobs->ids, jobs->table.snapshot, 1);
    }
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
    index_rescan(jobs->by_id, &key, 1, nullptr, 0);
    return index_getnext_slot(jobs->by_id, ForwardScanDirection, jobs->table.row);
}

bool may_have_attempts(JobsTable *jobs, int64 id) {
    if (jobs->attempts == nullptr) {
        // As in open_jobs.
        jobs->attempts = table_open(known.attempts, AccessShareLock);
        if (!known.valid) look_up();
        jobs->attempt = table_slot_create(jobs->attempts, nullptr);
        jobs->no_attempts = RelationGetNumberOfBlocks(jobs->attempts) == 0;
    }
    if (jobs->no_attempts) return false;
    if (!OidIsValid(known.attempts_index)) return true;
    if (jobs->attempts_by_job == nullptr) {
        if (jobs->attempts_index == nullptr) jobs->attempts_index = index_open(known.attempts_index, AccessShareLock);
        jobs->attempts_by_job = begin_index_scan(jobs->attempts, jobs->attempts_index, jobs->table.snapshot, 1);
    }
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
    index_rescan(jobs->attempts_by_job, &key, 1, nullptr, 0);
    return index_getnext_slot(jobs->attempts_by_job, ForwardScanDirection, jobs->attempt);
}

bool next_lane(JobsTable *jobs, int64 *lane) {
    core::ClaimKey first;
    return next_lane_of(open_ready(jobs), jobs->table, lane, &first);
}

bool next_lane_with_entries(JobsTable *jobs, LaneWalk *walk, int64 *lane, core::ClaimKey *first) {
    while (walk->at < walk->count) {
        CHECK_FOR_INTERRUPTS();
        const int64 next = walk->lanes[walk->at];
        int64 found = next - 1;
        // Behind the lowest number nothing can be looked for: it counts as one that has entries.
        if (next == PG_INT64_MIN)
            *first = core::kFirstKey;
        else if (!next_lane_of(open_ready(jobs), jobs->table, &found, first))
            break;
        if (next == PG_INT64_MIN || found == next) {
            walk->at++;
            *lane = next;
            return true;
        }
        const int64 *end = walk->lanes + walk->count;
        walk->at = static_cast<int>(std::lower_bound(walk->lanes + walk->at, end, found) - walk->lanes);
        if (walk->at < walk->count && walk->lanes[walk->at] == found) {
            walk->at++;
            *lane = found;
            return true;
        }
    }
    walk->at = walk->count;
    return false;
}

void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &expected) {
    seek_entry(open_ready(jobs), jobs->table, lane, from, expected);
}

void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to) {
    seek_entry_range(open_ready(jobs), jobs->table, lane, from, to);
}

bool has_turns() { return OidIsValid(known.turns); }

bool next_turn(JobsTable *jobs, int64 lane, int64 *turn) {
    return next_turn_of(open_turns(jobs), jobs->table, lane, turn);
}

void seek_turn(JobsTable *jobs, int64 lane, int64 turn, const core::ClaimKey &from) {
    seek_entry_of_turn(open_turns(jobs), jobs->table, lane, turn, from);
}

bool next_ready(JobsTable *jobs, core::ClaimKey *key) { return next_entry(&jobs->ready, jobs->table, key); }

bool fetch_ready(JobsTable *jobs) { return index_fetch_heap(jobs->ready.current, jobs->table.row); }

int64 next_job_id() {
    if (!known.valid) look_up();
    return nextval_internal(known.id_sequence, false);
}

Oid scheduled_status() { return known.statuses[static_cast<int>(core::JobStatus::Scheduled)]; }
Oid blocked_status() { return known.statuses[static_cast<int>(core::JobStatus::Blocked)]; }
Oid pending_status() { return known.statuses[static_cast<int>(core::JobStatus::Pending)]; }
Oid processing_status() { return known.statuses[static_cast<int>(core::JobStatus::Processing)]; }
Oid cancelled_status() { return known.statuses[static_cast<int>(core::JobStatus::Cancelled)]; }
Oid completed_status() { return known.statuses[static_cast<int>(core::JobStatus::Completed)]; }

core::JobStatus job_status_of(Datum value) {
    for (int i = 0; i < core::kJobStatusCount; i++)
        if (known.statuses[i] == DatumGetObjectId(value)) return static_cast<core::JobStatus>(i);
    elog(ERROR, "jobq: unknown value of jobq.job_status");
    pg_unreachable();
}

}  // namespace jobq
