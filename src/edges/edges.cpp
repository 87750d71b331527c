// See edges.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "edges/edges.h"
#include "row/jobs_table.h"
#include "table/table_in_use.h"

#include <algorithm>

extern "C" {
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

Statement find = {"SELECT j.id FROM jobq.jobs j WHERE j.id = ANY ($1) ORDER BY j.id", {INT8ARRAYOID}};
Statement hold = {"SELECT j.id FROM jobq.jobs j WHERE j.id = ANY ($1) ORDER BY j.id FOR KEY SHARE", {INT8ARRAYOID}};

Statement add_children_of = {
    R"(INSERT INTO jobq.edges (job_id, kind, target, on_failure) SELECT $1, 'child', u.id, NULL FROM unnest($2) AS u(id)
       ON CONFLICT DO NOTHING)",
    {INT8OID, INT8ARRAYOID}};
Statement delete_kind_of = {"DELETE FROM jobq.edges e WHERE e.job_id = ANY ($1) AND e.kind = $2",
                            {INT8ARRAYOID, TEXTOID}};
Statement delete_all_of = {"DELETE FROM jobq.edges e WHERE e.job_id = $1", {INT8OID}};
Statement find_last_dependency = {"SELECT max(e.target) FROM jobq.edges e WHERE e.job_id = $1 AND e.kind = 'depends'",
                                  {INT8OID}};
Statement move_all_of = {"UPDATE jobq.edges e SET job_id = $2 WHERE e.job_id = $1", {INT8OID, INT8OID}};
Statement delete_all_edges = {"DELETE FROM jobq.edges", {}, Planning::Free};
Statement delete_all_results = {"DELETE FROM jobq.deleted_dependencies", {}, Planning::Free};

// Selects the positions, in the array $1, of the jobs that an unfinished job needs. OFFSET 0 makes the planner read the
// edges of each job by index and check for each edge whether the other job is unfinished.
Statement find_needed = {
    R"(SELECT u.n FROM unnest($1) WITH ORDINALITY AS u(id, n)
       WHERE EXISTS (SELECT FROM jobq.edges e, LATERAL (SELECT FROM jobq.jobs j
                                                        WHERE j.id = ANY (ARRAY[e.job_id]) AND j.status <= 'processing') j
                     WHERE e.target = u.id OFFSET 0)
       ORDER BY u.n)",
    {INT8ARRAYOID}};

Statement keep_result = {"INSERT INTO jobq.deleted_dependencies (job_id, result) VALUES ($1, $2)", {INT8OID, JSONBOID}};
Statement find_unneeded_results = {
    R"(SELECT g.job_id FROM jobq.deleted_dependencies g
       WHERE NOT EXISTS (SELECT FROM jobq.edges e WHERE e.target = g.job_id) LIMIT $1 FOR UPDATE SKIP LOCKED)",
    {INT8OID},
    Planning::Free};
Statement delete_results = {"DELETE FROM jobq.deleted_dependencies g WHERE g.job_id = ANY ($1)", {INT8ARRAYOID}};

const char *kind_name(EdgeKind kind) {
    constexpr const char *kNames[] = {"depends", "awaits", "child"};
    return kNames[static_cast<int>(kind)];
}

Oid relation_of(const char *name) { return get_relname_relid(name, get_namespace_oid("jobq", false)); }

bool any_edge(Edges *edges) {
    if (edges->table == nullptr) edges->table = table_open(relation_of("edges"), AccessShareLock);
    return RelationGetNumberOfBlocks(edges->table) > 0;
}

enum class Which { Any, Uncommitted };

// Returns whether the index contains an edge with these values in its first columns.
bool found_in(Edges *edges, Relation *index, const char *index_name, ScanKeyData *keys, int count, Which which) {
    if (edges->row == nullptr) edges->row = table_slot_create(edges->table, nullptr);
    if (*index == nullptr) *index = open_whole_index(relation_of(index_name));
    // If the index has been dropped, assumes that there is an edge.
    if (*index == nullptr) return true;
    SnapshotData any;
    InitDirtySnapshot(any);
    IndexScanDesc scan = begin_index_scan(edges->table, *index, &any, count);
    index_rescan(scan, keys, count, nullptr, 0);
    bool found = false;
    // The scan sets any.xmin if the transaction that inserted the row is still in progress.
    while (!found && index_getnext_slot(scan, ForwardScanDirection, edges->row))
        found = which == Which::Any || TransactionIdIsValid(any.xmin);
    index_endscan(scan);
    ExecClearTuple(edges->row);
    return found;
}

bool has_edges_to(Edges *edges, int64 job, Which which) {
    if (!any_edge(edges)) return false;
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job));
    return found_in(edges, &edges->to_index, "edges_target_idx", &key, 1, which);
}

// Moves to the front the ids of the jobs to which no session is adding an edge, and returns the number of these jobs.
// In REPEATABLE READ and above, where the snapshot might not show edges that were added later, moves only the ids of
// jobs to which no edge leads at all.
int without_uncommitted(Edges *edges, Datum *ids, Datum *others, int count) {
    const Which which = IsolationUsesXactSnapshot() ? Which::Any : Which::Uncommitted;
    int left = 0;
    for (int i = 0; i < count; i++) {
        if (has_edges_to(edges, DatumGetInt64(ids[i]), which)) continue;
        if (others != nullptr) others[left] = others[i];
        ids[left++] = ids[i];
    }
    return left;
}

}  // namespace

bool has_edges_to(Edges *edges, int64 job) { return has_edges_to(edges, job, Which::Any); }

bool has_edges_from(Edges *edges, int64 job) {
    if (!any_edge(edges)) return false;
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job));
    return found_in(edges, &edges->from_index, "edges_pkey", &key, 1, Which::Any);
}

bool has_edges_from(Edges *edges, int64 job, EdgeKind kind) {
    if (!any_edge(edges)) return false;
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job));
    ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(kind_name(kind)));
    return found_in(edges, &edges->from_index, "edges_pkey", keys, lengthof(keys), Which::Any);
}

void close_edges(Edges *edges) {
    if (edges->row != nullptr) ExecDropSingleTupleTableSlot(edges->row);
    if (edges->from_index != nullptr) index_close(edges->from_index, AccessShareLock);
    if (edges->to_index != nullptr) index_close(edges->to_index, AccessShareLock);
    if (edges->table != nullptr) table_close(edges->table, AccessShareLock);
    *edges = {};
}

bool any_edge() { return is_in_use("edges"); }

bool any_active(EdgeKind kind) {
    if (!any_edge()) return false;
    Relation index =
        open_whole_index(relation_of(kind == EdgeKind::Depends ? "edges_depends_idx" : "edges_awaits_idx"));
    // If the index has been dropped, assumes that there is an active edge.
    if (index == nullptr) return true;
    // The first page of the index is its metapage.
    const bool any = RelationGetNumberOfBlocks(index) > 1;
    index_close(index, AccessShareLock);
    return any;
}

int without_needed(Datum *ids, Datum *others, int count) {
    if (count == 0) return 0;
    Edges edges = {};
    const bool any = any_edge(&edges);
    // Checks for uncommitted edges first. If a session that is adding an edge commits after this check, the statement
    // below sees the edge. In the opposite order, both checks could miss the edge.
    if (any) count = without_uncommitted(&edges, ids, others, count);
    close_edges(&edges);
    if (!any || count == 0) return count;
    const Rows needed = run(find_needed, Params().add(array_of(ids, count, INT8OID)));
    int left = 0;
    uint64 next = 0;
    for (int i = 0; i < count; i++) {
        if (next < needed.size() && needed[next].int64_at(1) == i + 1) {
            next++;
            continue;
        }
        if (others != nullptr) others[left] = others[i];
        ids[left++] = ids[i];
    }
    return left;
}

int64 hold_jobs(Datum *ids, int count) {
    if (count == 0) return 0;
    std::sort(ids, ids + count, [](Datum a, Datum b) { return DatumGetInt64(a) < DatumGetInt64(b); });
    count = static_cast<int>(std::unique(ids, ids + count) - ids);
    const Rows held = run(hold, Params().add(array_of(ids, count, INT8OID)));
    for (int i = 0; i < count; i++)
        if (static_cast<uint64>(i) == held.size() || held[i].int64_at(1) != DatumGetInt64(ids[i]))
            return DatumGetInt64(ids[i]);
    return 0;
}

int jobs_there(Datum *ids, int count) {
    if (count == 0) return 0;
    const Rows there = run(find, Params().add(array_of(ids, count, INT8OID)));
    for (uint64 i = 0; i < there.size(); i++) ids[i] = there[i].get(1);
    return static_cast<int>(there.size());
}

void add_children(int64 parent, Datum children) {
    run(add_children_of, Params().add(Int64GetDatum(parent)).add(children));
}

void forget_edges_from(Datum *jobs, int count, EdgeKind kind) {
    if (count > 0 && any_edge())
        run(delete_kind_of, Params().add(array_of(jobs, count, INT8OID)).add(CStringGetTextDatum(kind_name(kind))));
}

void move_edges(int64 from, int64 to) {
    Edges edges = {};
    const bool any = has_edges_from(&edges, from);
    close_edges(&edges);
    if (!any) return;
    const Rows last = run(find_last_dependency, Params().add(Int64GetDatum(from)));
    if (!last[0].is_null(1) && last[0].int64_at(1) >= to)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("cannot change the id of job %lld to %lld", static_cast<long long>(from),
                               static_cast<long long>(to)),
                        errdetail("The job depends on job %lld, and a job can only depend on jobs with lower ids.",
                                  static_cast<long long>(last[0].int64_at(1))),
                        errhint("Specify a higher id, or first delete the rows of the job from jobq.dependencies.")));
    run(move_all_of, Params().add(Int64GetDatum(from)).add(Int64GetDatum(to)));
}

void forget_edges(int64 job, bool completed, const Datum *result) {
    Edges edges = {};
    const bool has_own = has_edges_from(&edges, job);
    const bool needed = completed && has_edges_to(&edges, job);
    close_edges(&edges);
    if (has_own) run(delete_all_of, Params().add(Int64GetDatum(job)));
    if (needed)
        run(keep_result,
            Params().add(Int64GetDatum(job)).add_if(result != nullptr, result != nullptr ? *result : Datum(0)));
}

void forget_all_edges() {
    run(delete_all_edges, Params());
    run(delete_all_results, Params());
}

void prune_deleted_dependencies(int batch) {
    const Rows rows = run(find_unneeded_results, Params().add(Int64GetDatum(batch)));
    Edges edges = {};
    Datum *ids = allocate_array<Datum>(rows.size());
    int count = 0;
    for (uint64 i = 0; i < rows.size(); i++)
        if (!has_edges_to(&edges, rows[i].int64_at(1))) ids[count++] = rows[i].get(1);
    close_edges(&edges);
    if (count > 0) run(delete_results, Params().add(array_of(ids, count, INT8OID)));
}

}  // namespace jobq
