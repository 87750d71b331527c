// The edges between jobs (jobq.edges). An edge means that a job depends on another job, awaits its end, or has spawned
// it. The functions in dependencies.h add dependencies, and the functions in awaits.h add waits.
//
// A session that adds an edge first inserts it, and then checks that the target exists. A session that deletes a job
// first deletes the row, and then looks for edges to the job, including uncommitted edges, regardless of the snapshot.
// So at least one of them sees the change made by the other. If a completed job is deleted while an edge leads to it,
// its result is kept in jobq.deleted_dependencies.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class EdgeKind : uint8 { Depends, Awaits, Child };

// State of a scan of jobq.edges that ignores the snapshot: the scan also finds uncommitted rows and rows whose deletion
// is uncommitted. The scan costs almost nothing while the table is empty. Must be zeroed before use; close_edges()
// closes the table.
struct Edges {
    Relation table, from_index, to_index;
    TupleTableSlot *row;
};

// Returns whether other jobs, unfinished or not, depend on the job, have spawned it, or await it.
bool has_edges_to(Edges *edges, int64 job);
// These functions return whether edges, or edges of the given kind, begin at the job. Edges that begin at a job are
// deleted with the job.
bool has_edges_from(Edges *edges, int64 job);
bool has_edges_from(Edges *edges, int64 job, EdgeKind kind);
void close_edges(Edges *edges);

// Returns false if no edge of this kind (Depends or Awaits) has been active since the table was last empty. The check
// does not depend on the snapshot and costs almost nothing.
bool any_active(EdgeKind kind);

// Call the functions below inside with_spi(), with the owner's privileges.

// Moves to the front the ids of the jobs that no unfinished job needs, without changing their order, and returns the
// number of these jobs. Reorders `others` in the same way, unless it is nullptr.
int without_needed(Datum *ids, Datum *others, int count);

// Locks these jobs, which are targets of edges that the caller adds. Waits for sessions that are deleting one of the
// jobs, and prevents such deletions until the transaction ends. Returns the id of a job that no longer exists, or 0 if
// all exist. Modifies the array `ids`.
int64 hold_jobs(Datum *ids, int count);
// Moves the ids of existing jobs to the front, without changing their order, and returns the number of these jobs.
int jobs_there(Datum *ids, int count);

// Adds edges of kind child from `parent` to `children` (bigint[]). Leaves existing edges as they are.
void add_children(int64 parent, Datum children);
// Deletes the edges of one kind that begin at these jobs.
void forget_edges_from(Datum *jobs, int count, EdgeKind kind);
// Moves the edges that begin at a job to the job's new id. Raises 22023 if the new id is not higher than the ids of all
// dependencies of the job.
void move_edges(int64 from, int64 to);
// Deletes the edges that begin at a deleted job. If the job had completed and edges lead to it, keeps its result in
// jobq.deleted_dependencies. `result` is nullptr if the job has no result.
void forget_edges(int64 job, bool completed, const Datum *result);
// Returns whether forget_edges() might have anything to do. Costs almost nothing.
bool any_edge();
// Deletes all edges and all kept results. Call it when all jobs have been deleted.
void forget_all_edges();

// Deletes some of the rows of jobq.deleted_dependencies that belong to jobs to which no edge leads anymore.
void prune_deleted_dependencies(int batch);

}  // namespace jobq
