// Includes the server's headers and hides the differences between server versions, except for the magic block
// (library_version.cpp). Every file outside src/core includes this file first.
#pragma once

#ifdef JOBQ_CORE_ONLY
#error "core code must not see the server"
#endif

extern "C" {
#include "postgres.h"

#include "access/amapi.h"
#include "access/detoast.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/toast_internals.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "parser/parse_relation.h"
#include "postmaster/bgworker.h"
#include "replication/slot.h"
#include "storage/lock.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/xid8.h"
}

#if PG_VERSION_NUM < 150000
#error "jobq needs PostgreSQL 15 or newer"
#endif

#if PG_VERSION_NUM >= 180000
// In older versions, storage/latch.h declares the functions of this header.
extern "C" {
#include "storage/waiteventset.h"
}
#endif

#if PG_VERSION_NUM < 170000
// Before PostgreSQL 17, all intervals are finite.
#define INTERVAL_NOT_FINITE(interval) ((void)(interval), false)
#endif

namespace jobq {
constexpr int kServerMajor = PG_VERSION_NUM / 10000;
// Newest server version with which this release has been tested. On newer servers, jobq accesses rows only with SQL
// (table/attached.h).
constexpr int kNewestTested = 18;
inline bool newer_than_tested() { return kServerMajor > kNewestTested; }

// Type of the identifier of a system cache that an invalidation callback receives.
#if PG_VERSION_NUM >= 190000
using CatalogCache = SysCacheIdentifier;
#else
using CatalogCache = int;
#endif

// The type of the argument in which table_tuple_update() returns which indexes need an entry for the new version of the
// row.
#if PG_VERSION_NUM >= 160000
using IndexUpdate = TU_UpdateIndexes;
constexpr IndexUpdate kAllIndexes = TU_All;
inline bool wants_entries(IndexUpdate update) { return update != TU_None; }
inline bool wants_entry(IndexUpdate update, Relation index) {
    return update == TU_All || index->rd_indam->amsummarizing;
}
#else
using IndexUpdate = bool;
constexpr IndexUpdate kAllIndexes = true;
inline bool wants_entries(IndexUpdate update) { return update; }
inline bool wants_entry(IndexUpdate, Relation) { return true; }
#endif

// Releases resources that an index keeps between insertions. Since PostgreSQL 17, for example, BRIN keeps pages pinned.
inline void end_index_inserts(Relation index, struct IndexInfo *info) {
#if PG_VERSION_NUM >= 170000
    index_insert_cleanup(index, info);
#else
    (void)index;
    (void)info;
#endif
}

// Drops the temporary replication slots of this session.
inline void drop_temporary_slots() {
#if PG_VERSION_NUM >= 170000
    ReplicationSlotCleanup(false);
#else
    ReplicationSlotCleanup();
#endif
}

// Returns the oldest transaction whose outcome the server still knows.
inline TransactionId oldest_known_xid() {
#if PG_VERSION_NUM >= 170000
    return TransamVariables->oldestClogXid;
#else
    return ShmemVariableCache->oldestClogXid;
#endif
}

// Returns the sequence of an identity column.
inline Oid identity_sequence(Relation table, AttrNumber column) {
#if PG_VERSION_NUM >= 170000
    return getIdentitySequence(table, column, false);
#else
    return getIdentitySequence(RelationGetRelid(table), column, false);
#endif
}

// Returns whether the current transaction has replaced the files of the table, for example with TRUNCATE or ALTER
// TABLE. If so, the new files do not show what the table would contain after a rollback, and the current transaction
// might have written all rows in the new files.
inline bool has_new_files(Relation table) {
#if PG_VERSION_NUM >= 160000
    return table->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
#else
    return table->rd_firstRelfilenodeSubid != InvalidSubTransactionId;
#endif
}

// Returns whether this session holds the lock in exactly this mode.
inline bool holds_lock(const LOCKTAG &tag, LOCKMODE mode) {
#if PG_VERSION_NUM >= 170000
    return LockHeldByMe(&tag, mode, false);
#else
    return LockHeldByMe(&tag, mode);
#endif
}

inline IndexScanDesc begin_index_scan(Relation table, Relation index, Snapshot snapshot, int keys) {
#if PG_VERSION_NUM >= 190000
    return index_beginscan(table, index, snapshot, nullptr, keys, 0, SO_NONE);
#elif PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, keys, 0);
#else
    return index_beginscan(table, index, snapshot, keys, 0);
#endif
}

// Returns the hook that the planner calls after it has collected the properties of a table.
inline auto &table_hook() {
#if PG_VERSION_NUM >= 190000
    return build_simple_rel_hook;
#else
    return get_relation_info_hook;
#endif
}

// Returns the snapshot for reading a TOAST table. `storage` must exist as long as the snapshot is used.
inline Snapshot toast_snapshot(SnapshotData *storage) {
#if PG_VERSION_NUM >= 180000
    (void)storage;
    return get_toast_snapshot();
#else
    init_toast_snapshot(storage);
    return storage;
#endif
}

inline TableScanDesc begin_table_scan(Relation table, Snapshot snapshot, int count, ScanKeyData *keys) {
#if PG_VERSION_NUM >= 190000
    return table_beginscan(table, snapshot, count, keys, SO_NONE);
#else
    return table_beginscan(table, snapshot, count, keys);
#endif
}

inline IndexFetchTableData *begin_fetch_by_tid(Relation table) {
#if PG_VERSION_NUM >= 190000
    return table_index_fetch_begin(table, SO_NONE);
#else
    return table_index_fetch_begin(table);
#endif
}

inline TM_Result update_tuple(Relation table, ItemPointer tid, TupleTableSlot *row, Snapshot snapshot, bool wait,
                              TM_FailureData *failure, LockTupleMode *mode, IndexUpdate *indexes) {
    const CommandId command = GetCurrentCommandId(true);
#if PG_VERSION_NUM >= 190000
    return table_tuple_update(table, tid, row, command, 0, snapshot, InvalidSnapshot, wait, failure, mode, indexes);
#else
    return table_tuple_update(table, tid, row, command, snapshot, InvalidSnapshot, wait, failure, mode, indexes);
#endif
}

// Returns whether the role `member` is allowed to use SET ROLE to become `role`. Since PostgreSQL 16, membership alone
// is not enough.
inline bool may_set_role(Oid member, Oid role) {
#if PG_VERSION_NUM >= 160000
    return member_can_set_role(member, role);
#else
    return is_member_of_role(member, role);
#endif
}

// Whether a background worker can connect as a role that lacks the LOGIN attribute.
#if PG_VERSION_NUM >= 170000
constexpr bool kRunsWithoutLogin = true;
constexpr uint32 kConnectWithoutLogin = BGWORKER_BYPASS_ROLELOGINCHECK;
#else
constexpr bool kRunsWithoutLogin = false;
constexpr uint32 kConnectWithoutLogin = 0;
#endif

#if PG_VERSION_NUM >= 190000
using JsonbState = JsonbInState;
#else
using JsonbState = JsonbParseState *;
#endif

inline JsonbValue *push_jsonb(JsonbState *state, JsonbIteratorToken token, JsonbValue *value) {
#if PG_VERSION_NUM >= 190000
    pushJsonbValue(state, token, value);
    return state->result;
#else
    return pushJsonbValue(state, token, value);
#endif
}

inline void run_portal(Portal portal) {
#if PG_VERSION_NUM >= 180000
    PortalRun(portal, FETCH_ALL, true, None_Receiver, None_Receiver, nullptr);
#else
    PortalRun(portal, FETCH_ALL, true, true, None_Receiver, None_Receiver, nullptr);
#endif
}

inline TM_Result delete_tuple(Relation table, ItemPointer tid, Snapshot snapshot, TM_FailureData *failure) {
    const CommandId command = GetCurrentCommandId(true);
#if PG_VERSION_NUM >= 190000
    return table_tuple_delete(table, tid, command, 0, snapshot, InvalidSnapshot, true, failure);
#else
    return table_tuple_delete(table, tid, command, snapshot, InvalidSnapshot, true, failure, false);
#endif
}
}  // namespace jobq

#if PG_VERSION_NUM >= 160000
// PostgreSQL 16 replaced these functions with one function for all kinds of objects.
#define pg_database_ownercheck(database, role) object_ownercheck(DatabaseRelationId, database, role)
#define pg_extension_ownercheck(extension, role) object_ownercheck(ExtensionRelationId, extension, role)
#define pg_database_aclcheck(database, role, mode) object_aclcheck(DatabaseRelationId, database, role, mode)
#define pg_namespace_aclcheck(schema, role, mode) object_aclcheck(NamespaceRelationId, schema, role, mode)
#define pg_proc_aclcheck(function, role, mode) object_aclcheck(ProcedureRelationId, function, role, mode)
#endif
