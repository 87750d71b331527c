// The edges between jobs (jobq.edges): a job depends on another one, awaits its end, or has spawned it. Dependencies
// are added by dependencies.h, waits by awaits.h.
//
// A session that adds an edge adds it first, and then checks that the target exists. A session that deletes a job
// deletes it first, and then looks for edges to it, including uncommitted ones, whatever the snapshot. So one of the
// two notices the other. A completed job that is deleted while an edge leads to it leaves its result in
// jobq.deleted_dependencies.
#pragma once

#include "compat/pg.h"

namespace jobq {

enum class EdgeKind : uint8 { Depends, Awaits, Child };

// Reads the table whatever the snapshot: uncommitted rows count, and so do rows whose deletion is uncommitted. Costs
// next to nothing while the table is empty. Zeroed at first; close_edges() ends it.
struct Edges {
    Relation table, from_index, to_index;
    TupleTableSlot *row;
};

// Returns whether other jobs depend on the job, have spawned it or await it, unfinished or not.
bool has_edges_to(Edges *edges, int64 job);
// Returns whether the job has edges of its own, which are deleted with it; the second function: edges of one kind.
bool has_edges_from(Edges *edges, int64 job);
bool has_edges_from(Edges *edges, int64 job, EdgeKind kind);
void close_edges(Edges *edges);

// Returns false while no edge of the kind, Depends or Awaits, has been active since the table was last empty, whatever
// the snapshot. Costs next to nothing, and edges of other kinds do not count.
bool any_active(EdgeKind kind);

// The functions below are called inside with_spi(), with the owner's rights.

// Moves the ids that no unfinished job needs to the front, in their order, and returns their number. Reorders `others`
// in the same way, unless it is nullptr.
int without_needed(Datum *ids, Datum *others, int count);

// Waits for sessions that are deleting one of these jobs, to which the caller adds edges, and keeps other sessions from
// deleting one unnoticed until the transaction ends. Returns a job that no longer exists, or 0. Changes `ids`.
int64 hold_jobs(Datum *ids, int count);
// Moves the ids of existing jobs to the front, in their order, and returns their number.
int jobs_there(Datum *ids, int count);

// Adds edges of kind child to `children` (bigint[]). Leaves existing ones as they are.
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
