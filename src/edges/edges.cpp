// See edges.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "edges/children.h"
#include "edges/edges.h"
#include "edges/job_waits.h"

#include <algorithm>

namespace jobq {

namespace {

constexpr EdgeTable kDependencies = {"dependencies", "dependencies_pkey", "dependencies_depends_on_idx"};
constexpr EdgeTable kChildren = {"children", "children_pkey", "children_child_idx"};
constexpr EdgeTable kWaits = {"job_waits", "job_waits_pkey", "job_waits_awaits_idx"};

Statement find = {"SELECT j.id FROM jobq.jobs j WHERE j.id = ANY ($1) ORDER BY j.id", {INT8ARRAYOID}};
Statement hold = {"SELECT j.id FROM jobq.jobs j WHERE j.id = ANY ($1) ORDER BY j.id FOR KEY SHARE", {INT8ARRAYOID}};

Statement keep_result = {"INSERT INTO jobq.deleted_dependencies (job_id, result) VALUES ($1, $2)", {INT8OID, JSONBOID}};

Statement delete_dependencies_of = {"DELETE FROM jobq.dependencies d WHERE d.job_id = $1", {INT8OID}};
Statement find_last_dependency = {"SELECT max(d.depends_on) FROM jobq.dependencies d WHERE d.job_id = $1", {INT8OID}};
Statement move_dependencies_of = {"UPDATE jobq.dependencies d SET job_id = $2 WHERE d.job_id = $1", {INT8OID, INT8OID}};
Statement delete_all_dependencies = {"DELETE FROM jobq.dependencies", {}, Planning::Free};
Statement delete_all_results = {"DELETE FROM jobq.deleted_dependencies", {}, Planning::Free};

// Of a job that others name: whether one of these has not finished. Finished ones are passed by, one by one: OFFSET 0
// keeps the search for an unfinished one on the indexes.
#define UNFINISHED_IN(table, job, other)                                                               \
    "EXISTS (SELECT FROM " table " e, LATERAL (SELECT FROM jobq.jobs j WHERE j.id = ANY (ARRAY[e." job \
    "]) AND j.status <= 'processing') j "                                                              \
    "WHERE e." other " = u.id OFFSET 0)"
Statement find_depended_on = {
    "SELECT u.n FROM unnest($1) WITH ORDINALITY AS u(id, n) "
    "WHERE " UNFINISHED_IN("jobq.dependencies", "job_id", "depends_on") " ORDER BY u.n",
    {INT8ARRAYOID}};
Statement find_followed = {
    "SELECT u.n FROM unnest($1) WITH ORDINALITY AS u(id, n) "
    "WHERE " UNFINISHED_IN("jobq.children", "parent_id", "child_id") " OR " UNFINISHED_IN("jobq.job_waits", "job_id",
                                                                                          "awaits") " ORDER BY u.n",
    {INT8ARRAYOID}};

#define UNNEEDED_RESULTS                                \
    "SELECT g.job_id FROM jobq.deleted_dependencies g " \
    "WHERE NOT EXISTS (SELECT FROM jobq.dependencies d WHERE d.depends_on = g.job_id) "
Statement find_unneeded_results = {UNNEEDED_RESULTS "LIMIT $1 FOR UPDATE SKIP LOCKED", {INT8OID}, Planning::Free};
// The same where there are children and waits.
Statement find_unfollowed_results = {UNNEEDED_RESULTS
                                     "AND NOT EXISTS (SELECT FROM jobq.children c WHERE c.child_id = g.job_id) "
                                     "AND NOT EXISTS (SELECT FROM jobq.job_waits w WHERE w.awaits = g.job_id) "
                                     "LIMIT $1 FOR UPDATE SKIP LOCKED",
                                     {INT8OID},
                                     Planning::Free};
Statement delete_results = {"DELETE FROM jobq.deleted_dependencies g WHERE g.job_id = ANY ($1)", {INT8ARRAYOID}};

bool has_edges_to(Edges *edges, int64 job, Which which) {
    return has_edge_to(&edges->dependencies, kDependencies, job, which) ||
           has_edge_to(&edges->children, kChildren, job, which) || has_edge_to(&edges->waits, kWaits, job, which);
}

bool any_followed(Edges *edges) {
    return any_edge_in(&edges->children, kChildren) || any_edge_in(&edges->waits, kWaits);
}

bool any_edge(Edges *edges) { return any_edge_in(&edges->dependencies, kDependencies) || any_followed(edges); }

// Leaves those in front to which nobody is adding an edge. An old snapshot does not show who has added one since: then
// those to which nobody has.
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

// Leaves those in front that a statement does not find.
int without_found(Statement &find, Datum *ids, Datum *others, int count) {
    if (count == 0) return 0;
    const Rows needed = run(find, Params().add(array_of(ids, count, INT8OID)));
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

}  // namespace

bool has_edges_to(Edges *edges, int64 job) { return has_edges_to(edges, job, Which::Any); }

bool has_edges_from(Edges *edges, int64 job) {
    return has_dependencies(edges, job) || has_edge_from(&edges->children, kChildren, job) ||
           has_edge_from(&edges->waits, kWaits, job);
}

bool has_dependencies(Edges *edges, int64 job) { return has_edge_from(&edges->dependencies, kDependencies, job); }

void close_edges(Edges *edges) {
    close_edge_table(&edges->dependencies);
    close_edge_table(&edges->children);
    close_edge_table(&edges->waits);
}

bool any_edge() {
    Edges edges = {};
    const bool any = any_edge(&edges);
    close_edges(&edges);
    return any;
}

int without_needed(Datum *ids, Datum *others, int count) {
    if (count == 0) return 0;
    Edges edges = {};
    // First those that somebody is just making another job need. When he commits in between, what follows sees it; the
    // other way round neither would. So each asks anew whether there is anything to look at.
    if (any_edge(&edges)) count = without_uncommitted(&edges, ids, others, count);
    if (any_edge_in(&edges.dependencies, kDependencies)) count = without_found(find_depended_on, ids, others, count);
    if (any_followed(&edges)) count = without_found(find_followed, ids, others, count);
    close_edges(&edges);
    return count;
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

void move_dependencies(int64 from, int64 to) {
    Edges edges = {};
    const bool depends = has_dependencies(&edges, from);
    close_edges(&edges);
    if (!depends) return;
    const int64 last = run(find_last_dependency, Params().add(Int64GetDatum(from)))[0].int64_at(1);
    if (last >= to)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("job %lld cannot get the id %lld", static_cast<long long>(from), static_cast<long long>(to)),
                 errdetail("It depends on job %lld, and no job depends on a later one.", static_cast<long long>(last)),
                 errhint("Give it a higher id, or delete its rows in jobq.dependencies first.")));
    run(move_dependencies_of, Params().add(Int64GetDatum(from)).add(Int64GetDatum(to)));
}

void forget_edges(int64 job, bool completed, const Datum *result) {
    Edges edges = {};
    const bool depends = has_dependencies(&edges, job);
    const bool needed = completed && has_edges_to(&edges, job);
    if (depends) run(delete_dependencies_of, Params().add(Int64GetDatum(job)));
    if (has_edge_from(&edges.children, kChildren, job)) forget_children(job);
    if (has_edge_from(&edges.waits, kWaits, job)) forget_waits(job);
    close_edges(&edges);
    if (needed)
        run(keep_result,
            Params().add(Int64GetDatum(job)).add_if(result != nullptr, result != nullptr ? *result : Datum(0)));
}

void forget_all_edges() {
    run(delete_all_dependencies, Params());
    run(delete_all_results, Params());
    Edges edges = {};
    const bool followed = any_followed(&edges);
    close_edges(&edges);
    if (!followed) return;
    forget_all_children();
    forget_all_waits();
}

void prune_deleted_dependencies(int batch) {
    Edges edges = {};
    const Rows rows =
        run(any_followed(&edges) ? find_unfollowed_results : find_unneeded_results, Params().add(Int64GetDatum(batch)));
    Datum *ids = room_for<Datum>(rows.size());
    int count = 0;
    for (uint64 i = 0; i < rows.size(); i++)
        if (!has_edges_to(&edges, rows[i].int64_at(1))) ids[count++] = rows[i].get(1);
    close_edges(&edges);
    if (count > 0) run(delete_results, Params().add(array_of(ids, count, INT8OID)));
}

}  // namespace jobq
