// The only server prelude: every shell file includes this first. All differences between server versions live here.
#pragma once

#ifdef JOBQ_CORE_ONLY
#error "core code must not see the server"
#endif

extern "C" {
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
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
#include "parser/parse_relation.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"
}

#if PG_VERSION_NUM < 150000
#error "jobq needs PostgreSQL 15 or newer"
#endif

#if PG_VERSION_NUM < 170000
// Intervals are finite before PostgreSQL 17.
#define INTERVAL_NOT_FINITE(interval) ((void)(interval), false)
#endif

namespace jobq {
// On newer servers than this release has been tested with nothing is done below SQL (table/attached.h).
constexpr int kNewestTested = 18;
inline bool newer_than_tested() { return PG_VERSION_NUM / 10000 > kNewestTested; }

// What table_tuple_update says of the indexes: which of them want an entry for the new version.
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

// The oldest transaction whose outcome the server still knows.
inline TransactionId oldest_known_xid() {
#if PG_VERSION_NUM >= 170000
    return TransamVariables->oldestClogXid;
#else
    return ShmemVariableCache->oldestClogXid;
#endif
}

// The sequence behind an identity column.
inline Oid identity_sequence(Relation table, AttrNumber column) {
#if PG_VERSION_NUM >= 170000
    return getIdentitySequence(table, column, false);
#else
    return getIdentitySequence(RelationGetRelid(table), column, false);
#endif
}

// Whether the current transaction has given the table new files (TRUNCATE, ALTER TABLE ...): what they hold says
// nothing of what there is if it rolls back, and all rows in them may be its own.
inline bool has_new_files(Relation table) {
#if PG_VERSION_NUM >= 160000
    return table->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
#else
    return table->rd_firstRelfilenodeSubid != InvalidSubTransactionId;
#endif
}

// Whether this session holds the lock in this mode itself.
inline bool holds_lock(const LOCKTAG &tag, LOCKMODE mode) {
#if PG_VERSION_NUM >= 170000
    return LockHeldByMe(&tag, mode, false);
#else
    return LockHeldByMe(&tag, mode);
#endif
}

inline IndexScanDesc begin_index_scan(Relation table, Relation index, Snapshot snapshot, int keys) {
#if PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, keys, 0);
#else
    return index_beginscan(table, index, snapshot, keys, 0);
#endif
}
}  // namespace jobq

#if PG_VERSION_NUM >= 160000
// One function for all kinds of objects since PostgreSQL 16.
#define pg_database_ownercheck(database, role) object_ownercheck(DatabaseRelationId, database, role)
#endif
