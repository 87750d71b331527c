// See jobs_table.h.
#include "pg/pg.h"

#include "shared/marks.h"
#include "store/jobs_table.h"

extern "C" {
#include "access/nbtree.h"
#include "access/relscan.h"
#include "catalog/pg_trigger.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
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
                                             "group_key",
                                             "concurrency_key",
                                             "run_at",
                                             "ready_at",
                                             "due_at",
                                             "status",
                                             "attempts",
                                             "lost_attempts",
                                             "lease",
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
                                             "result"};

// What the session knows of the catalogue.
struct Known {
    bool valid;
    Oid schema, table, ids, ready;
    uint64 epoch;
    Oid id_sequence;
    Oid statuses[core::kJobStatusCount];
};
Known known;
bool callback_registered = false;

void forget(Datum, Oid relation) {
    if (relation == InvalidOid || relation == known.table) known.valid = false;
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
    if (!OidIsValid(known.table) || !OidIsValid(known.ids) || !OidIsValid(known.ready)) unknown_table();
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

IndexScanDesc begin_scan(const JobsTable &jobs, Relation index, int keys) {
    return begin_index_scan(jobs.table.relation, index, jobs.table.snapshot, keys);
}

void end_scans(JobsTable *jobs) {
    if (jobs->by_id != nullptr) index_endscan(jobs->by_id);
    if (jobs->by_claim_key != nullptr) index_endscan(jobs->by_claim_key);
    jobs->by_id = jobs->by_claim_key = nullptr;
}

void begin_ready_scan(JobsTable *jobs) {
    if (jobs->ready == nullptr) jobs->ready = index_open(known.ready, AccessShareLock);
    jobs->by_claim_key = begin_scan(*jobs, jobs->ready, 2);
    // The key of an entry is read from the index, before anybody looks at the row.
    jobs->by_claim_key->xs_want_itup = true;

    // A row comparison, as for SQL's (priority, ready_at, id) >= (...): see access/skey.h.
    constexpr RegProcedure comparisons[3] = {F_BTINT2CMP, F_TIMESTAMPTZ_CMP, F_BTINT8CMP};
    for (int i = 0; i < 3; i++)
        ScanKeyEntryInitialize(&jobs->place_key[i], i < 2 ? SK_ROW_MEMBER : SK_ROW_MEMBER | SK_ROW_END,
                               static_cast<AttrNumber>(i + 2), BTGreaterEqualStrategyNumber, InvalidOid, InvalidOid,
                               comparisons[i], Datum(0));
    ScanKeyInit(&jobs->lane_key[0], 1, BTEqualStrategyNumber, F_INT8EQ, Datum(0));
    ScanKeyData &place = jobs->lane_key[1];
    place.sk_flags = SK_ROW_HEADER;
    place.sk_attno = 2;
    place.sk_strategy = BTGreaterEqualStrategyNumber;
    place.sk_argument = PointerGetDatum(jobs->place_key);
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
    if (jobs->ready != nullptr) index_close(jobs->ready, NoLock);
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
    if (jobs->ready != nullptr) index_close(jobs->ready, NoLock);
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

bool find_job(JobsTable *jobs, int64 id) {
    if (jobs->by_id == nullptr) {
        if (jobs->ids == nullptr) jobs->ids = index_open(known.ids, AccessShareLock);
        jobs->by_id = begin_scan(*jobs, jobs->ids, 1);
    }
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
    index_rescan(jobs->by_id, &key, 1, nullptr, 0);
    return index_getnext_slot(jobs->by_id, ForwardScanDirection, jobs->table.row);
}

void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from) {
    if (jobs->by_claim_key == nullptr) begin_ready_scan(jobs);
    jobs->lane_key[0].sk_argument = Int64GetDatum(lane);
    jobs->place_key[0].sk_argument = Int16GetDatum(from.priority);
    jobs->place_key[1].sk_argument = TimestampTzGetDatum(from.ready_at);
    jobs->place_key[2].sk_argument = Int64GetDatum(from.id);
    index_rescan(jobs->by_claim_key, jobs->lane_key, from == core::kFirstKey ? 1 : 2, nullptr, 0);
}

bool next_ready(JobsTable *jobs, core::ClaimKey *key) {
    IndexScanDesc scan = jobs->by_claim_key;
    if (index_getnext_tid(scan, ForwardScanDirection) == nullptr) return false;
    bool is_null;
    key->priority = DatumGetInt16(index_getattr(scan->xs_itup, 2, scan->xs_itupdesc, &is_null));
    key->ready_at = DatumGetTimestampTz(index_getattr(scan->xs_itup, 3, scan->xs_itupdesc, &is_null));
    key->id = DatumGetInt64(index_getattr(scan->xs_itup, 4, scan->xs_itupdesc, &is_null));
    return true;
}

bool fetch_ready(JobsTable *jobs) { return index_fetch_heap(jobs->by_claim_key, jobs->table.row); }

int64 next_job_id() { return nextval_internal(known.id_sequence, false); }

Oid scheduled_status() { return known.statuses[static_cast<int>(core::JobStatus::Scheduled)]; }
Oid pending_status() { return known.statuses[static_cast<int>(core::JobStatus::Pending)]; }
Oid processing_status() { return known.statuses[static_cast<int>(core::JobStatus::Processing)]; }
Oid completed_status() { return known.statuses[static_cast<int>(core::JobStatus::Completed)]; }

core::JobStatus job_status_of(Datum value) {
    for (int i = 0; i < core::kJobStatusCount; i++)
        if (known.statuses[i] == DatumGetObjectId(value)) return static_cast<core::JobStatus>(i);
    elog(ERROR, "jobq: unknown value of jobq.job_status");
    pg_unreachable();
}

}  // namespace jobq
