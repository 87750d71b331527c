// Adds and reads dependencies, which are edges of kind depends. edges.h describes what happens to the edges when one of
// the jobs is deleted, and groups/dependents.h describes when a dependent is unblocked.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "edges/dependency_policy.h"
#include "queues/scope.h"

namespace jobq {

// A new job, and the ids of its dependencies (at least one) in ascending order.
struct NewDependent {
    int64 job;
    int64 *depends_on;
    int count;
    core::OnDependencyFailure on_failure;
    int number;  // position of the job in the caller's arguments
};

// Adds the edges of jobs that this transaction has just inserted as `blocked`. Raises 22023 if a dependency does not
// exist, or if the caller has no access to the home queue of a dependency. In either case, *number is the `number` of
// the job that names this dependency. Waits for sessions that are deleting one of the dependencies.
void add_dependencies(const NewDependent *dependents, int count, const QueueScope *scope, int *number);

// Call the functions below inside with_spi().

// Checks an edge that plain SQL has added. Raises 23503 if the job `job` does not exist, or if neither the job
// `depends_on` nor its kept result exists. Waits for sessions that are deleting one of the two jobs, and prevents such
// deletions until the transaction ends.
void require_jobs_of_edge(int64 job, int64 depends_on);

// Returns the dependencies of a job, with the columns (id, status, result).
Rows read_dependency_results(int64 job);

// Returns at most `max_jobs` jobs that are connected to this job by dependencies, in the order of the ids, with the
// columns (id, kind, status, n). n is 1 for the job itself, and higher for jobs that are farther away. Returns no rows
// if the job does not exist. The kind and status of a deleted job are NULL. Omits jobs in queues that are out of scope.
Rows read_graph(int64 job, const QueueScope *scope, int64 max_jobs);
// Returns the dependencies between the jobs in `ids` (bigint[]), with the columns (from, to).
Rows read_edges(Datum ids);

}  // namespace jobq
