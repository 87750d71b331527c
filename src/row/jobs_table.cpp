// See jobs_table.h.
#include "compat/pg.h"

#include "compat/library_version.h"
#include "compat/relation_changes.h"
#include "compat/settings.h"
#include "core/ablation.h"
#include "row/inheritance.h"
#include "row/jobs_table.h"
#include "shmem/database_state.h"

#include <algorithm>

extern "C" {
#include "catalog/pg_trigger.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
}

namespace jobq {

AttrNumber later_job_columns[kLaterJobColumns + 1];

namespace {

constexpr OwnColumns kOwn = {kOwnJobColumns, kAllJobColumns, kJobColumns, later_job_columns};
static_assert(kAllJobColumns <= kMaxOwnColumns, "the columns are in one word");

// The indexes that are read directly: keys, given as column numbers, and predicate.
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
    {"jobs_group_waiting_idx", false, {kJobGroupWaiting, kJobId}, {{kJobGroupWaiting}}},
    {"jobs_group_active_idx", false, {kJobGroupActive}, {{kJobGroupActive}}},
    {"jobs_unique_idx", true, {kJobUniqueKey, kJobQueue}, {{kJobHoldsKey, true}}},
    {"jobs_due_idx", false, {kJobRunAt, kJobId}, {{kJobDue, true}}},
    {"jobs_running_idx", false, {kJobId}, {{kJobRescueIndexed, true}}},
};

constexpr int kOwnUniques = 2;

// What the session has cached from the catalog.
struct Known {
    bool valid;
    Oid schema, table;
    Attached attached;
    Oid indexes[kJobIndexes];      // InvalidOid: the index was dropped
    bool checked[kJobIndexes];     // whether the index has been checked and matches kIndexes
    Oid attempts, attempts_index;  // attempts_index: InvalidOid if it was dropped
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
    if (relation == InvalidOid || relation == known.table || relation == known.attempts ||
        std::find(static_cast<const Oid *>(known.indexes), end, relation) != end)
        forget_all();
}

void forget_types(Datum, CatalogCache, uint32) { forget_all(); }

[[noreturn]] void unknown_table() {
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("table jobq.jobs does not have the columns that this version of the library expects"),
         errhint("Install the library and the SQL scripts of the same version, and run ALTER EXTENSION jobq UPDATE.")));
    pg_unreachable();
}

[[noreturn]] void dropped_table() {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("table jobq.jobs has been dropped"),
                    errhint("If the extension has been created again, call the function again.")));
    pg_unreachable();
}

constexpr char kFollows[] = "follow_job";

// An upgrade script whose SQL an older library would handle wrongly names the oldest suitable library as the argument
// of a trigger.
void require_library_for(Relation table) {
    const TriggerDesc *triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++) {
        const Trigger &trigger = triggers->triggers[i];
        if (trigger.tgnargs > 0 && strcmp(trigger.tgname, kFollows) == 0)
            require_library(trigger.tgargs[0], "table jobq.jobs");
    }
}

Oid status_value(Oid type, core::JobStatus status) {
    return DatumGetObjectId(
        DirectFunctionCall2(enum_in, CStringGetDatum(core::status_name(status)), ObjectIdGetDatum(type)));
}

// Returns whether this is one of the triggers that report manual changes and correct the numbers of rows, and is
// enabled as it must be.
bool tells_of_changes(const FormData_pg_trigger &trigger) {
    const char *name = NameStr(trigger.tgname);
    const bool always = trigger.tgenabled == TRIGGER_FIRES_ALWAYS;
    if (strcmp(name, "count_job") == 0 || strcmp(name, kFollows) == 0)
        return always || trigger.tgenabled == TRIGGER_FIRES_ON_ORIGIN;
    const bool in_replica = strcmp(name, "tell_job") == 0 || strcmp(name, "renumber_job") == 0;
    return in_replica && (always || trigger.tgenabled == TRIGGER_FIRES_ON_REPLICA);
}
constexpr int kTellingTriggers = 4;

// Returns a hash of the versions of these triggers' catalog rows. A changed trigger has a new row version, so the
// number does not repeat.
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
    if (telling < kTellingTriggers) return kNoEpoch;
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

// Opens an index if it is good. Checks its definition only once, until the table or the index changes.
Relation open_if_good(JobIndex which) {
    const int i = static_cast<int>(which);
    Relation index = open_whole_index(known.indexes[i]);
    if (index == nullptr || known.checked[i]) return index;
    known.checked[i] = has_layout(index, kIndexes[i]);
    if (known.checked[i]) return index;
    index_close(index, AccessShareLock);
    return nullptr;
}

// What is wrong with an index, and what to do about it.
struct Trouble {
    const char *message;
    const char *hint;
};

Trouble trouble_with(JobIndex which) {
    const Oid index = known.indexes[static_cast<int>(which)];
    const char *name = name_of(which);
    if (!OidIsValid(index))
        return {psprintf("index jobq.%s is missing", name),
                "Create the index as in the install script of the extension."};
    Relation whole = open_whole_index(index);
    if (whole == nullptr)
        return {
            psprintf("index jobq.%s is invalid and may lack jobs", name),
            psprintf(
                "Wait if the index is being created or dropped concurrently. Otherwise, run REINDEX INDEX CONCURRENTLY "
                "jobq.%s.",
                name_of(which))};
    index_close(whole, AccessShareLock);
    return {psprintf("index jobq.%s does not have the definition that jobq expects", name),
            "Drop the index, and create it as in the install script of the extension."};
}

// Returns why jobq's own indexes require SQL, as Attached::reason (table/attached.h), or nullptr.
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
        on_relation_change(forget);
        CacheRegisterSyscacheCallback(ENUMOID, forget_types, Datum(0));
        CacheRegisterSyscacheCallback(NAMESPACEOID, forget_types, Datum(0));
        callback_registered = true;
    }
    // Read before anything else, so that an invalidation that arrives in the meantime makes the session read everything
    // again.
    const uint64 before = changes;
    known.schema = get_namespace_oid("jobq", false);
    known.table = get_relname_relid("jobs", known.schema);
    known.attempts = get_relname_relid("attempts", known.schema);
    known.attempts_index = get_relname_relid("attempts_job_idx", known.schema);
    if (!OidIsValid(known.table)) dropped_table();
    if (!OidIsValid(known.attempts)) unknown_table();
    Relation table = try_table_open(known.table, AccessShareLock);
    if (table == nullptr) dropped_table();
    // Looked up after the table is locked, because dropping an index waits for this lock. Otherwise the index might be
    // gone before it is opened.
    for (int i = 0; i < kJobIndexes; i++) {
        known.indexes[i] = get_relname_relid(kIndexes[i].name, known.schema);
        known.checked[i] = false;
    }
    require_library_for(table);
    require_no_inheritance(table);
    known.attached = attached_to(table, kOwn);
    if (known.attached.reason == nullptr) known.attached.reason = reason_in_indexes();
    known.epoch = epoch_of(known.table);
    known.id_sequence = identity_sequence(table, kJobId);
    const Oid type = TupleDescAttr(RelationGetDescr(table), kJobStatus - 1)->atttypid;
    table_close(table, NoLock);
    for (int i = 0; i < core::kJobStatusCount; i++)
        known.statuses[i] = status_value(type, static_cast<core::JobStatus>(i));
    known.valid = changes == before;
}

// Opens the table with what is known once the lock has been granted. During the wait for it, the table may have been
// replaced or dropped (42P01).
Relation open_known_table(LOCKMODE mode) {
    if (!known.valid) look_up();
    const Oid table = known.table;
    // Taking the lock also processes invalidations.
    LockRelationOid(table, mode);
    if (!known.valid) look_up();
    return known.table == table ? table_open(table, NoLock) : open_known_table(mode);
}

void end_scans(JobsTable *jobs) {
    if (jobs->by_id != nullptr) index_endscan(jobs->by_id);
    if (jobs->attempts_by_job != nullptr) index_endscan(jobs->attempts_by_job);
    jobs->by_id = jobs->attempts_by_job = nullptr;
    if (jobs->by_place != nullptr) table_index_fetch_end(jobs->by_place);
    jobs->by_place = nullptr;
    end_ready_scans(&jobs->ready);
    end_walk(&jobs->walk);
}

// The row of a job that this session has claimed recently.
struct Place {
    int64 id;
    ItemPointerData tid;
};
constexpr int kPlaces = 4096;
Place places[kPlaces];

Place *place_of(int64 id) { return &places[static_cast<uint64>(id) % kPlaces]; }

// Not used in REPEATABLE READ and above, because in serializable transactions the index lookup takes predicate locks.
bool find_in_place(JobsTable *jobs, int64 id) {
    const Place &place = *place_of(id);
    if (place.id != id || !ItemPointerIsValid(&place.tid) || IsolationUsesXactSnapshot()) return false;
    // The table may have been truncated since the claim. It cannot shrink while it is locked.
    if (jobs->block_count == 0) jobs->block_count = RelationGetNumberOfBlocks(jobs->table.relation);
    if (ItemPointerGetBlockNumber(&place.tid) >= jobs->block_count) return false;
    if (jobs->by_place == nullptr) jobs->by_place = begin_fetch_by_place(jobs->table.relation);
    ItemPointerData tid = place.tid;
    bool more = false;
    return table_index_fetch_tuple(jobs->by_place, &tid, jobs->table.snapshot, jobs->table.row, &more, nullptr) &&
           DatumGetInt64(job_value(*jobs, kJobId)) == id;
}

ReadyScan *open_ready(JobsTable *jobs) {
    if (jobs->ready.index == nullptr) jobs->ready.index = open_job_index(JobIndex::Ready);
    return &jobs->ready;
}

ReadyScan *open_round_robin(JobsTable *jobs) {
    if (jobs->ready.round_robin == nullptr) jobs->ready.round_robin = open_job_index(JobIndex::RoundRobin);
    return &jobs->ready;
}

ReadyScan *open_due(JobsTable *jobs) {
    if (jobs->ready.due == nullptr) jobs->ready.due = open_job_index(JobIndex::Due);
    return &jobs->ready;
}

ReadyScan *open_running(JobsTable *jobs) {
    if (jobs->ready.running == nullptr) jobs->ready.running = open_job_index(JobIndex::Running);
    return &jobs->ready;
}

void close_ready(ReadyScan *ready) {
    for (Relation index : {ready->index, ready->round_robin, ready->due, ready->running})
        if (index != nullptr) index_close(index, NoLock);
}

// Returns whether this transaction holds a lock on the table under which it may have changed columns, triggers, or
// indexes, or dropped the table.
bool is_changed_here(Oid table) {
    LOCKTAG tag;
    SET_LOCKTAG_RELATION(tag, MyDatabaseId, table);
    for (const LOCKMODE mode : {ShareLock, ShareRowExclusiveLock, ExclusiveLock, AccessExclusiveLock})
        if (holds_lock(tag, mode)) return true;
    return false;
}

JobsAccess way_of_rows() {
    const char *reason = known.attached.reason;
    switch (settings.access) {
        case Access::Sql:
            return {true, false, "jobq.access is sql"};
        case Access::Direct:
            return {false, reason != nullptr, reason};
        default:
            return {reason != nullptr, false, reason};
    }
}

bool goes_by_sql() {
    const JobsAccess access = way_of_rows();
    if (access.refused)
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("jobq.access is \"direct\", but table jobq.jobs must be accessed with SQL: %s", access.reason),
                 errhint("Run SET jobq.access = auto.")));
    return access.by_sql;
}

}  // namespace

JobsAccess jobs_access() {
    table_close(open_known_table(AccessShareLock), NoLock);
    return way_of_rows();
}

void lock_jobs_table() { table_close(open_known_table(RowExclusiveLock), NoLock); }

bool try_lock_jobs_table() {
    const Oid table = get_relname_relid("jobs", get_namespace_oid("jobq", true));
    return OidIsValid(table) && ConditionalLockRelationOid(table, RowExclusiveLock);
}

void open_jobs(JobsTable *jobs) {
    memset(static_cast<void *>(jobs), 0, sizeof(*jobs));
    Relation relation = open_known_table(RowExclusiveLock);
    jobs->table = open_table(relation, kJobId, known.attached, goes_by_sql());
}

void close_jobs(JobsTable *jobs) {
    end_scans(jobs);
    if (jobs->ids != nullptr) index_close(jobs->ids, NoLock);
    close_ready(&jobs->ready);
    if (jobs->attempts_index != nullptr) index_close(jobs->attempts_index, NoLock);
    if (jobs->attempt != nullptr) ExecDropSingleTupleTableSlot(jobs->attempt);
    if (jobs->attempts != nullptr) table_close(jobs->attempts, NoLock);
    close_table(&jobs->table);
}

bool open_jobs_if_quiet(JobsTable *jobs) {
    // Makes the changes of other sessions and of this transaction's last statement visible.
    CommandCounterIncrement();
    AcceptInvalidationMessages();
    if (!known.valid) {
        const Oid table = get_relname_relid("jobs", get_namespace_oid("jobq", true));
        if (table != known.table || is_changed_here(table)) return false;
        look_up();
    }
    if (way_of_rows().by_sql || way_of_rows().refused) return false;
    open_jobs(jobs);
    const IndexPlan plan = index_plan_of(jobs->table.relation);
    if (!jobs->table.by_sql && !plan.evaluates && plan.uniques == kOwnUniques) return true;
    close_jobs(jobs);
    return false;
}

void open_jobs_for_reading(JobsTable *jobs) {
    memset(static_cast<void *>(jobs), 0, sizeof(*jobs));
    jobs->table.relation = open_known_table(AccessShareLock);
    jobs->table.attached = known.attached;
    jobs->table.by_sql = goes_by_sql();
    jobs->table.row = make_row(jobs->table.relation, jobs->table.by_sql);
    jobs->table.snapshot = GetActiveSnapshot();
}

void close_jobs_for_reading(JobsTable *jobs) {
    end_scans(jobs);
    close_ready(&jobs->ready);
    ExecDropSingleTupleTableSlot(jobs->table.row);
    table_close(jobs->table.relation, NoLock);
}

uint64 trigger_epoch() {
    // A transaction that has not locked the table yet may not have received changes of its triggers.
    AcceptInvalidationMessages();
    if (!known.valid) look_up();
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

void require_job_columns() {
    if (!known.valid) look_up();
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

void remember_place(const JobsTable &jobs, int64 id) {
    if constexpr (!core::built_with(core::Mechanism::PlaceCache)) return;
    if (!jobs.table.by_sql) *place_of(id) = {id, jobs.table.changed->tts_tid};
}

bool find_job(JobsTable *jobs, int64 id) {
    if (jobs->table.by_sql) return find_job_by_sql(&jobs->table, id);
    if (find_in_place(jobs, id)) return true;
    if (jobs->by_id == nullptr) {
        if (jobs->ids == nullptr) jobs->ids = open_job_index(JobIndex::Ids);
        jobs->by_id = begin_index_scan(jobs->table.relation, jobs->ids, jobs->table.snapshot, 1);
    }
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
    index_rescan(jobs->by_id, &key, 1, nullptr, 0);
    return index_getnext_slot(jobs->by_id, ForwardScanDirection, jobs->table.row);
}

bool may_have_attempts(JobsTable *jobs, int64 id) {
    if (jobs->attempts == nullptr) {
        // See open_jobs().
        jobs->attempts = table_open(known.attempts, AccessShareLock);
        if (!known.valid) look_up();
        jobs->attempt = table_slot_create(jobs->attempts, nullptr);
        jobs->no_attempts = RelationGetNumberOfBlocks(jobs->attempts) == 0;
    }
    if (jobs->no_attempts) return false;
    if (jobs->attempts_by_job == nullptr) {
        if (jobs->attempts_index == nullptr) jobs->attempts_index = open_whole_index(known.attempts_index);
        if (jobs->attempts_index == nullptr) return true;
        jobs->attempts_by_job = begin_index_scan(jobs->attempts, jobs->attempts_index, jobs->table.snapshot, 1);
    }
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
    index_rescan(jobs->attempts_by_job, &key, 1, nullptr, 0);
    return index_getnext_slot(jobs->attempts_by_job, ForwardScanDirection, jobs->attempt);
}

static bool next_lane_and_key(JobsTable *jobs, int64 *lane, core::ClaimKey *first) {
    return jobs->table.by_sql ? next_lane_by_sql(jobs->table, lane, first)
                              : next_lane_of(open_ready(jobs), jobs->table, lane, first);
}

bool next_lane(JobsTable *jobs, int64 *lane) {
    core::ClaimKey first;
    return next_lane_and_key(jobs, lane, &first);
}

bool next_lane_with_entries(JobsTable *jobs, LaneWalk *walk, int64 *lane, core::ClaimKey *first) {
    while (walk->at < walk->count) {
        CHECK_FOR_INTERRUPTS();
        const int64 next = walk->lanes[walk->at];
        int64 found = next - 1;
        // No lane comes before the lowest number, so the search cannot find it. It counts as a lane with entries.
        if (next == PG_INT64_MIN)
            *first = core::kFirstKey;
        else if (!next_lane_and_key(jobs, &found, first))
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
    if (jobs->table.by_sql)
        seek_by_sql(&jobs->walk, lane, from, core::kLastKey);
    else
        seek_entry(open_ready(jobs), jobs->table, lane, from, expected);
}

void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_by_sql(&jobs->walk, lane, from, to);
    else
        seek_entry_range(open_ready(jobs), jobs->table, lane, from, to);
}

bool next_round_robin_key(JobsTable *jobs, int64 lane, int64 *key) {
    return jobs->table.by_sql ? next_round_robin_key_by_sql(jobs->table, lane, key)
                              : next_round_robin_key_of(open_round_robin(jobs), jobs->table, lane, key);
}

void seek_round_robin_key(JobsTable *jobs, int64 lane, int64 key, const core::ClaimKey &from) {
    if (jobs->table.by_sql)
        seek_round_robin_key_by_sql(&jobs->walk, lane, key, from);
    else
        seek_entry_of_round_robin_key(open_round_robin(jobs), jobs->table, lane, key, from);
}

void seek_due(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_due_by_sql(&jobs->walk, from, to);
    else
        seek_due_entry(open_due(jobs), jobs->table, from, to);
}

void seek_running(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_running_by_sql(&jobs->walk, from, to);
    else
        seek_running_entry(open_running(jobs), jobs->table, from, to);
}

bool next_ready(JobsTable *jobs, core::ClaimKey *key) {
    return jobs->table.by_sql ? next_by_sql(&jobs->walk, jobs->table, key) : next_entry(&jobs->ready, jobs->table, key);
}

bool fetch_ready(JobsTable *jobs) {
    if (!jobs->table.by_sql) return index_fetch_heap(jobs->ready.current, jobs->table.row);
    fetch_by_sql(jobs->walk, &jobs->table);
    return true;
}

Oid job_id_sequence() {
    if (!known.valid) look_up();
    return known.id_sequence;
}

int64 last_job_id() {
    LOCAL_FCINFO(call, 1);
    InitFunctionCallInfoData(*call, nullptr, 1, InvalidOid, nullptr, nullptr);
    call->args[0] = {ObjectIdGetDatum(job_id_sequence()), false};
    const Datum last = pg_sequence_last_value(call);
    // No id has been assigned yet.
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
