// Which jobs depend on which others (the edges of kind depends). What becomes of the edges when either job is deleted:
// edges.h. When a dependent is set free: groups/dependents.h.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "edges/dependency_policy.h"
#include "queues/scope.h"

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
// as those are whose home is out of scope; *number is set to the place of the job that names it. Waits for whoever is
// just deleting one of them.
void add_dependencies(const NewDependent *dependents, int count, const QueueScope *scope, int *number);

// Those below are called inside with_spi().

// 23503 unless both jobs of an edge that was added by hand are there, or the result of the one it waits for is kept.
// Waits for whoever is just deleting one of these; from now on nobody can until the transaction ends.
void require_jobs_of_edge(int64 job, int64 depends_on);

// Rows (id, status, result) of what a job depends on.
Rows read_dependency_results(int64 job);

// Rows (id, kind, status, n, in the order of the ids) of the jobs that are connected with a job, at most so many; n
// counts them from the job itself, 1, to those farther away. None when there is no such job. Of a job that is gone kind
// and status are NULL. Jobs out of scope are left out.
Rows read_graph(int64 job, const QueueScope *scope, int64 max_jobs);
// Rows (from, to) of the edges between jobs of `ids` (bigint[]).
Rows read_edges(Datum ids);

}  // namespace jobq
