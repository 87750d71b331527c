// See jobs_catalog.h.
#include "compat/pg.h"

#include "compat/library_version.h"
#include "compat/relation_changes.h"
#include "compat/settings.h"
#include "row/inheritance.h"
#include "row/job_columns.h"
#include "row/jobs_catalog.h"
#include "shmem/database_state.h"
#include "table/table.h"
#include "table/table_sql.h"

#include <algorithm>

extern "C" {
#include "catalog/pg_trigger.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
}

namespace jobq {

AttrNumber later_job_columns[kLaterJobColumns + 1];

namespace {

constexpr OwnColumns kOwn = {kOwnJobColumns, kAllJobColumns, kJobColumns, later_job_columns};
static_assert(kAllJobColumns <= kMaxOwnColumns, "the columns are in one word");

// The expected definition of an index that is scanned directly: its key columns, given as column numbers, and its
// predicate.
struct IndexLayout {
    const char *name;
    bool unique;
    AttrNumber keys[5];
    RowTest tests[kMaxRowTests];
};
constexpr IndexLayout kIndexes[kJobIndexes] = {
    {"jobs_pkey", true, {kJobId}, {}},
    {"jobs_ready_idx", false, {kJobLane, kJobPriority, kJobRunAt, kJobId}, {{kJobReady, true}}},
    {"jobs_round_robin_idx",
     false,
     {kJobLane, kJobRoundRobinKey, kJobPriority, kJobRunAt, kJobId},
     {{kJobRoundRobinKey}, {kJobReady, true}}},
    {"jobs_key_idx",
     false,
     {kJobLane, kJobConcurrencyKey, kJobPriority, kJobRunAt, kJobId},
     {{kJobConcurrencyKey}, {kJobReady, true}}},
    {"jobs_queue_slot_idx", false, {kJobQueueSlot, kJobSlotSeq}, {{kJobQueueSlot}}},
    {"jobs_key_slot_idx", false, {kJobKeySlot, kJobSlotSeq}, {{kJobKeySlot}}},
    {"jobs_kind_slot_idx", false, {kJobKindSlot, kJobSlotSeq}, {{kJobKindSlot}}},
    {"jobs_limit_slot1_idx", false, {kJobLimitSlot1, kJobSlotSeq}, {{kJobLimitSlot1}}},
    {"jobs_limit_slot2_idx", false, {kJobLimitSlot2, kJobSlotSeq}, {{kJobLimitSlot2}}},
    {"jobs_group_waiting_idx", false, {kJobGroupWaiting, kJobId}, {{kJobGroupWaiting}}},
    {"jobs_group_active_idx", false, {kJobGroupActive}, {{kJobGroupActive}}},
    {"jobs_unique_idx", true, {kJobUniqueKey, kJobQueue}, {{kJobHoldsKey, true}}},
    {"jobs_due_idx", false, {kJobRunAt, kJobId}, {{kJobDue, true}}},
    {"jobs_running_idx", false, {kJobId}, {{kJobRescueIndexed, true}}},
};

// Catalog data that the session has cached.
struct Known {
    bool valid;
    JobsCatalog jobs;
    Oid indexes[kJobIndexes];   // InvalidOid: the index was dropped
    bool checked[kJobIndexes];  // whether the index has been checked and matches kIndexes
    uint64 epoch;
    Oid id_sequence;
    Oid statuses[core::kJobStatusCount];
};
Known known;
uint64 changes = 1;
bool callback_registered = false;

void forget_all() {
    known.valid = false;
    changes++;
}

void forget(Oid relation) {
    const Oid *end = known.indexes + kJobIndexes;
    if (relation == InvalidOid || relation == known.jobs.table || relation == known.jobs.attempts ||
        std::find(static_cast<const Oid *>(known.indexes), end, relation) != end)
        forget_all();
}

void forget_types(Datum, CatalogCache, uint32) { forget_all(); }

[[noreturn]] void unknown_table() {
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("table \"jobq.jobs\" does not have the columns that this version of the library expects"),
         errhint("Install the library and the SQL scripts of the same version, and run ALTER EXTENSION jobq UPDATE.")));
    pg_unreachable();
}

[[noreturn]] void dropped_table() {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation \"jobq.jobs\" does not exist"),
                    errhint("If the extension has been created again, call the function again.")));
    pg_unreachable();
}

constexpr char kFollows[] = "follow_job";

// Raises an error if the library is too old for the installed extension. If an extension version has tables that older
// libraries cannot handle, the upgrade script of that version stores the oldest suitable library version as the
// argument of a trigger.
void require_library_for(Relation table) {
    const TriggerDesc *triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
        const Trigger &trigger = triggers->triggers[i];
        if (trigger.tgnargs > 0 && strcmp(trigger.tgname, kFollows) == 0)
            require_library(trigger.tgargs[0], "table \"jobq.jobs\"");
    }
}

Oid status_value(Oid type, core::JobStatus status) {
    return DatumGetObjectId(
        DirectFunctionCall2(enum_in, CStringGetDatum(core::status_name(status)), ObjectIdGetDatum(type)));
}

// Returns whether the trigger is enabled as required and is one of the triggers with which jobq reports changes made
// with plain SQL and corrects the numbers in rows.
bool reports_changes(const FormData_pg_trigger &trigger) {
    const char *name = NameStr(trigger.tgname);
    const bool always = trigger.tgenabled == TRIGGER_FIRES_ALWAYS;
    if (strcmp(name, "count_job") == 0 || strcmp(name, kFollows) == 0)
        return always || trigger.tgenabled == TRIGGER_FIRES_ON_ORIGIN;
    const bool in_replica = strcmp(name, "tell_job") == 0 || strcmp(name, "renumber_job") == 0;
    return in_replica && (always || trigger.tgenabled == TRIGGER_FIRES_ON_REPLICA);
}
constexpr int kReportingTriggers = 4;

// Returns the trigger epoch: a hash of the catalog row versions of the triggers that report changes. When one of these
// triggers changes, its catalog row gets a new version, so the epoch changes to a value that it has never had.
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
        if (!reports_changes(*trigger)) continue;
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
    if (telling < kReportingTriggers) return kNoEpoch;
    return epoch == kNoEpoch ? 1 : epoch;
}

const char *name_of(JobIndex which) { return kIndexes[static_cast<int>(which)].name; }

bool has_layout(Relation index, const IndexLayout &layout) {
    const IndexedColumns found = indexed_columns(index);
    int keys = 0;
    while (keys < static_cast<int>(lengthof(layout.keys)) && layout.keys[keys] != InvalidAttrNumber) keys++;
    return found.usual && (found.unique || !layout.unique) && found.count == keys &&
           memcmp(found.keys, layout.keys, sizeof(AttrNumber) * keys) == 0 &&
           std::equal(std::begin(found.tests), std::end(found.tests), layout.tests);
}

// Opens an index if it is complete and has the expected definition; otherwise, returns nullptr. After the definition
// has passed the check, it is checked again only when the table or the index has changed.
Relation open_if_good(JobIndex which) {
    const int i = static_cast<int>(which);
    Relation index = open_whole_index(known.indexes[i]);
    if (index == nullptr || known.checked[i]) return index;
    known.checked[i] = has_layout(index, kIndexes[i]);
    if (known.checked[i]) return index;
    index_close(index, AccessShareLock);
    return nullptr;
}

// A problem with an index, as the message and hint of an error.
struct Trouble {
    const char *message;
    const char *hint;
};

Trouble trouble_with(JobIndex which) {
    const Oid index = known.indexes[static_cast<int>(which)];
    const char *name = name_of(which);
    if (!OidIsValid(index))
        return {psprintf("index \"jobq.%s\" is missing", name),
                "Create the index as in the install script of the extension."};
    Relation whole = open_whole_index(index);
    if (whole == nullptr)
        return {
            psprintf("index \"jobq.%s\" is invalid and may be incomplete", name),
            psprintf(
                "Wait if the index is being created or dropped concurrently. Otherwise, run REINDEX INDEX CONCURRENTLY "
                "jobq.%s.",
                name_of(which))};
    index_close(whole, AccessShareLock);
    return {psprintf("index \"jobq.%s\" does not have the definition that jobq expects", name),
            "Drop the index, and create it as in the install script of the extension."};
}

// Returns the reason why the state of jobq's own indexes requires access with SQL, worded like Attached::reason
// (table/attached.h). Returns nullptr if direct access is possible.
const char *reason_in_indexes() {
    static char reason[NAMEDATALEN + 64];
    for (int i = 0; i < kJobIndexes; i++) {
        const auto which = static_cast<JobIndex>(i);
        Relation index = open_if_good(which);
        if (index == nullptr) {
            strlcpy(reason, trouble_with(which).message, sizeof(reason));
            return reason;
        }
        index_close(index, AccessShareLock);
    }
    return nullptr;
}

void look_up() {
    if (!callback_registered) {
        on_relation_change<forget>();
        CacheRegisterSyscacheCallback(ENUMOID, forget_types, Datum(0));
        CacheRegisterSyscacheCallback(NAMESPACEOID, forget_types, Datum(0));
        callback_registered = true;
    }
    // Reads this counter before anything else, so that an invalidation that arrives while the catalog is being read
    // makes the session read everything again.
    const uint64 before = changes;
    const Oid schema = get_namespace_oid("jobq", false);
    known.jobs.table = get_relname_relid("jobs", schema);
    known.jobs.attempts = get_relname_relid("attempts", schema);
    known.jobs.attempts_index = get_relname_relid("attempts_job_idx", schema);
    known.jobs.log_lines = get_relname_relid("log_lines", schema);
    known.jobs.log_lines_index = get_relname_relid("log_lines_job_idx", schema);
    if (!OidIsValid(known.jobs.table)) dropped_table();
    if (!OidIsValid(known.jobs.attempts) || !OidIsValid(known.jobs.log_lines)) unknown_table();
    Relation table = try_table_open(known.jobs.table, AccessShareLock);
    if (table == nullptr) dropped_table();
    // Looks up the indexes after the table has been locked, because dropping an index waits for this lock. Without the
    // lock, an index might be dropped before it is opened.
    for (int i = 0; i < kJobIndexes; i++) {
        known.indexes[i] = get_relname_relid(kIndexes[i].name, schema);
        known.checked[i] = false;
    }
    require_library_for(table);
    require_no_inheritance(table);
    known.jobs.attached = attached_to(table, kOwn);
    if (known.jobs.attached.reason == nullptr) known.jobs.attached.reason = reason_in_indexes();
    known.epoch = epoch_of(known.jobs.table);
    known.id_sequence = identity_sequence(table, kJobId);
    const Oid type = TupleDescAttr(RelationGetDescr(table), kJobStatus - 1)->atttypid;
    table_close(table, NoLock);
    for (int i = 0; i < core::kJobStatusCount; i++)
        known.statuses[i] = status_value(type, static_cast<core::JobStatus>(i));
    known.valid = changes == before;
}

// Returns whether this transaction holds a lock on the table that is strong enough to change columns, triggers, or
// indexes, or to drop the table.
bool is_changed_here(Oid table) {
    LOCKTAG tag;
    SET_LOCKTAG_RELATION(tag, MyDatabaseId, table);
    for (const LOCKMODE mode : {ShareLock, ShareRowExclusiveLock, ExclusiveLock, AccessExclusiveLock})
        if (holds_lock(tag, mode)) return true;
    return false;
}

}  // namespace

const JobsCatalog &jobs_catalog() {
    if (!known.valid) look_up();
    return known.jobs;
}

bool can_read_jobs_catalog() {
    if (known.valid) return true;
    const Oid table = get_relname_relid("jobs", get_namespace_oid("jobq", true));
    return table == known.jobs.table && !is_changed_here(table);
}

Relation open_jobs_relation(LOCKMODE mode) {
    const Oid table = jobs_catalog().table;
    // Acquiring the lock also processes invalidations. While this session waited for the lock, the table might have
    // been dropped and created again, so its OID is checked.
    LockRelationOid(table, mode);
    return jobs_catalog().table == table ? table_open(table, NoLock) : open_jobs_relation(mode);
}

void lock_jobs_table() { table_close(open_jobs_relation(RowExclusiveLock), NoLock); }

bool try_lock_jobs_table(LOCKMODE mode) {
    const Oid table = get_relname_relid("jobs", get_namespace_oid("jobq", true));
    return OidIsValid(table) && ConditionalLockRelationOid(table, mode);
}

JobsAccess jobs_access() {
    const char *reason = jobs_catalog().attached.reason;
    switch (settings.access) {
        case Access::Sql:
            return {true, false, "jobq.access is sql"};
        case Access::Direct:
            return {false, reason != nullptr, reason};
        default:
            return {reason != nullptr, false, reason};
    }
}

bool jobs_need_sql() {
    const JobsAccess access = jobs_access();
    if (access.refused)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("\"jobq.access\" is \"direct\", but table \"jobq.jobs\" must be accessed with SQL: %s",
                               access.reason),
                        errhint("Run SET jobq.access = auto.")));
    return access.by_sql;
}

uint64 trigger_epoch() {
    // Receives invalidations first, because a transaction that has not locked the table yet might not know about
    // changes to the triggers of the table.
    AcceptInvalidationMessages();
    jobs_catalog();
    return known.epoch;
}

Relation open_job_index_if_good(JobIndex which) { return open_if_good(which); }

Relation open_job_index(JobIndex which) {
    Relation index = open_if_good(which);
    if (index != nullptr) return index;
    const Trouble trouble = trouble_with(which);
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("%s", trouble.message),
                    errhint("%s", trouble.hint)));
    pg_unreachable();
}

void require_job_index(JobIndex which) { index_close(open_job_index(which), NoLock); }

Oid job_id_sequence() {
    jobs_catalog();
    return known.id_sequence;
}

int64 last_job_id() {
    LOCAL_FCINFO(call, 1);
    InitFunctionCallInfoData(*call, nullptr, 1, InvalidOid, nullptr, nullptr);
    call->args[0] = {ObjectIdGetDatum(job_id_sequence()), false};
    const Datum last = pg_sequence_last_value(call);
    // NULL means that no id has been assigned yet.
    return call->isnull ? 0 : DatumGetInt64(last);
}

int64 next_job_id() { return nextval_internal(job_id_sequence(), false); }

Oid stored_status(core::JobStatus status) { return known.statuses[static_cast<int>(status)]; }

core::JobStatus job_status_of(Datum value) {
    for (int i = 0; i < core::kJobStatusCount; i++)
        if (known.statuses[i] == DatumGetObjectId(value)) return static_cast<core::JobStatus>(i);
    elog(ERROR, "jobq: unknown value of jobq.job_status");
    pg_unreachable();
}

}  // namespace jobq
