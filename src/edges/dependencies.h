// Which jobs depend on which others (jobq.dependencies), from the enqueue to the deletion of either. Who is
// set free when: groups/dependents.h.
//
// An enqueue adds its edges first and then looks whether the jobs are there; whoever deletes a job does it first and
// then looks, whatever the snapshot, for edges to it, uncommitted ones too. So one of the two notices: a job that
// completed and was deleted leaves a row in jobq.deleted_dependencies for those that still depend on it.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "edges/dependency_policy.h"
#include "queues/scope.h"

extern "C" {
#include "access/genam.h"
}

namespace jobq {

// A new job, and the jobs that it depends on: at least one, in ascending order.
struct NewDependent {
    int64 job;
    int64 *depends_on;
    int count;
    core::OnDependencyFailure on_failure;
    int number;  // its place among the caller's arguments
};

// Adds the edges of jobs that this transaction has just inserted as `blocked`. 22023 when one of the others is unknown,
// as those out of scope are; *number is set to the place of the job that names it. Waits for whoever is just deleting
// one of them.
void add_dependencies(const NewDependent *dependents, int count, const QueueScope *scope, int *number);

// Looks into jobq.dependencies whatever the snapshot, uncommitted rows included. Zeroed at first; close_edges ends it.
struct Edges {
    Relation table, from_index, to_index;
    TupleTableSlot *row;
};
// Next to free while the table is empty.
bool has_dependents(Edges *edges, int64 job);
bool has_dependencies(Edges *edges, int64 job);
void close_edges(Edges *edges);

// False when the table is empty, whatever the snapshot: then nobody need look into it. Next to free.
bool any_dependency();

// Those below are called inside with_spi().

// 23503 unless both jobs of an edge that was added by hand are there, or the result of the one it waits for is kept.
// Waits for whoever is just deleting one of these; from now on nobody can until the transaction ends.
void require_jobs_of_edge(int64 job, int64 depends_on);

// This job has been deleted. `result` is nullptr unless it has one.
void forget_dependencies(int64 job, bool completed, const Datum *result);
// All jobs have been deleted.
void forget_all_dependencies();

// Leaves those of these ids in front, in their order, on which no unfinished job depends; returns how many. `others`,
// unless nullptr, is an array that goes with ids.
int without_dependents(Datum *ids, Datum *others, int count);

// Deletes some rows of jobq.deleted_dependencies that nobody needs any more.
void prune_deleted_dependencies(int batch);

// Rows (id, status, result) of what a job depends on.
Rows read_dependency_results(int64 job);

// Rows (id, kind, status, n, in the order of the ids) of the jobs that are connected with a job, at most so many; n
// counts them from the job itself, 1, to those farther away. None when there is no such job. Of a job that is gone kind
// and status are NULL. Jobs out of scope are left out.
Rows read_graph(int64 job, const QueueScope *scope, int64 max_jobs);
// Rows (from, to) of the edges between jobs of `ids` (bigint[]).
Rows read_edges(Datum ids);

}  // namespace jobq
