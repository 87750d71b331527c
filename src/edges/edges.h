// The edges between jobs (jobq.edges). An edge means that a job depends on another job, awaits its end, or has spawned
// it. The functions in dependencies.h add dependencies, and the functions in awaits.h add waits.
//
// A session that adds an edge first inserts it, and then checks that the target exists. A session that deletes a job
// first deletes the row, and then looks for edges to the job, including uncommitted ones, whatever the snapshot. So at
// least one of the two sees the change of the other. If a completed job is deleted while an edge leads to it, its
// result is kept in jobq.deleted_dependencies.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class EdgeKind : uint8 { Depends, Awaits, Child };

// State of a scan of jobq.edges that ignores the snapshot: uncommitted rows count, and so do rows whose deletion is
// uncommitted. The scan costs next to nothing while the table is empty. Must be zeroed before use; close_edges() closes
// the table.
struct Edges {
    Relation table, from_index, to_index;
    TupleTableSlot *row;
};

// Returns whether other jobs depend on the job, have spawned it or await it, unfinished or not.
bool has_edges_to(Edges *edges, int64 job);
// Return whether edges begin at the job; these are deleted with the job. The second function checks only edges of one
// kind.
bool has_edges_from(Edges *edges, int64 job);
bool has_edges_from(Edges *edges, int64 job, EdgeKind kind);
void close_edges(Edges *edges);

// Returns false if no edge of this kind (Depends or Awaits) has been active since the table was last empty, whatever
// the snapshot. Costs next to nothing.
bool any_active(EdgeKind kind);

// The functions below are called inside with_spi(), with the owner's rights.

// Moves the ids of jobs that no unfinished job needs to the front, keeping their order, and returns their number.
// Reorders `others` in the same way, unless it is nullptr.
int without_needed(Datum *ids, Datum *others, int count);

// Locks these jobs, which are targets of edges that the caller adds. Waits for sessions that are deleting one of the
// jobs, and prevents such deletions until the transaction ends. Returns the id of a job that no longer exists, or 0 if
// all exist. Changes `ids`.
int64 hold_jobs(Datum *ids, int count);
// Moves the ids of existing jobs to the front, keeping their order, and returns their number.
int jobs_there(Datum *ids, int count);

// Adds edges of kind child from `parent` to `children` (bigint[]). Leaves existing edges as they are.
void add_children(int64 parent, Datum children);
// Deletes the edges of one kind that begin at these jobs.
void forget_edges_from(Datum *jobs, int count, EdgeKind kind);
// Moves the edges that begin at a job to its new id. Raises 22023 if the new id is not above all of its dependencies.
void move_edges(int64 from, int64 to);
// Deletes the edges that begin at a job that has been deleted. `result` is nullptr unless the job has one.
void forget_edges(int64 job, bool completed, const Datum *result);
// Returns whether forget_edges() may have anything to do. Costs next to nothing.
bool any_edge();
// Deletes all edges, because all jobs have been deleted.
void forget_all_edges();

// Deletes some rows of jobq.deleted_dependencies to which no edge leads any more.
void prune_deleted_dependencies(int batch);

}  // namespace jobq
