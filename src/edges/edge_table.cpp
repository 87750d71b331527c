// See edge_table.h.
#include "compat/pg.h"

#include "edges/edge_table.h"
#include "job/jobs_table.h"

extern "C" {
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

// Whether there is an edge with this key.
bool found_in(Relation index, const OpenEdges &edges, int64 key, Which which) {
    SnapshotData any;
    InitDirtySnapshot(any);
    ScanKeyData scan_key;
    ScanKeyInit(&scan_key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(key));
    IndexScanDesc scan = begin_index_scan(edges.table, index, &any, 1);
    index_rescan(scan, &scan_key, 1, nullptr, 0);
    bool found = false;
    // Of a row that another transaction is inserting the snapshot tells which.
    while (!found && index_getnext_slot(scan, ForwardScanDirection, edges.row))
        found = which == Which::Any || TransactionIdIsValid(any.xmin);
    index_endscan(scan);
    ExecClearTuple(edges.row);
    return found;
}

Oid relation_of(const char *name) { return get_relname_relid(name, get_namespace_oid("jobq", false)); }

bool found_by(OpenEdges *edges, const EdgeTable &table, Relation *index, const char *index_name, int64 key,
              Which which) {
    if (!any_edge_in(edges, table)) return false;
    if (edges->row == nullptr) edges->row = table_slot_create(edges->table, nullptr);
    if (*index == nullptr) *index = open_whole_index(relation_of(index_name));
    // Somebody has dropped it: better too much than too little.
    if (*index == nullptr) return true;
    return found_in(*index, *edges, key, which);
}

}  // namespace

bool any_edge_in(OpenEdges *edges, const EdgeTable &table) {
    if (edges->table == nullptr) {
        edges->table = table_open(relation_of(table.name), AccessShareLock);
    }
    return RelationGetNumberOfBlocks(edges->table) > 0;
}

bool has_edge_from(OpenEdges *edges, const EdgeTable &table, int64 job) {
    return found_by(edges, table, &edges->from_index, table.from_index, job, Which::Any);
}

bool has_edge_to(OpenEdges *edges, const EdgeTable &table, int64 job, Which which) {
    return found_by(edges, table, &edges->to_index, table.to_index, job, which);
}

void close_edge_table(OpenEdges *edges) {
    if (edges->row != nullptr) ExecDropSingleTupleTableSlot(edges->row);
    if (edges->from_index != nullptr) index_close(edges->from_index, AccessShareLock);
    if (edges->to_index != nullptr) index_close(edges->to_index, AccessShareLock);
    if (edges->table != nullptr) table_close(edges->table, AccessShareLock);
    *edges = {};
}

}  // namespace jobq
