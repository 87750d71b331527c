// Adds and reads dependencies, which are edges of kind depends. For what happens to the edges when one of the jobs is
// deleted, see edges.h; for when a dependent is unblocked, see groups/dependents.h.
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
    int number;  // position of the job in the caller's arguments
};

// Adds the edges of jobs that this transaction has just inserted as `blocked`. Raises 22023 if a dependency does not
// exist, or if the caller has no access to its home queue; then *number is the `number` of the job that names the
// dependency. Waits for sessions that are deleting one of the dependencies.
void add_dependencies(const NewDependent *dependents, int count, const QueueScope *scope, int *number);

// The functions below are called inside with_spi().

// Checks an edge that plain SQL has added: raises 23503 unless both jobs exist, or the result of the deleted target is
// kept. Waits for sessions that are deleting one of the two jobs, and prevents such deletions until the transaction
// ends.
void require_jobs_of_edge(int64 job, int64 depends_on);

// Returns rows (id, status, result) of the dependencies of a job.
Rows read_dependency_results(int64 job);

// Returns rows (id, kind, status, n), in the order of the ids, for at most `max_jobs` jobs that are connected with this
// job by edges. n is 1 for the job itself, and higher for jobs that are farther away. Returns no rows if the job does
// not exist. The kind and status of a deleted job are NULL. Jobs in queues out of scope are left out.
Rows read_graph(int64 job, const QueueScope *scope, int64 max_jobs);
// Returns rows (from, to) of the edges between jobs of `ids` (bigint[]).
Rows read_edges(Datum ids);

}  // namespace jobq
