// All edges between jobs: who depends on whom (jobq.dependencies), has spawned whom (jobq.children), and awaits whom
// (jobq.job_waits). Who deletes a job asks here whether another one needs it, and says here that it is gone.
//
// Whoever adds an edge does so first, and then looks whether the job is there; whoever deletes the job does that first,
// and then looks, whatever the snapshot, for edges to it, uncommitted ones too. So one of the two notices: a job that
// completed and was deleted leaves a row in jobq.deleted_dependencies for those that still need it.
#pragma once

#include "compat/pg.h"
#include "edges/edge_table.h"

namespace jobq {

// Looks into the tables whatever the snapshot; next to free while they are empty. Zeroed at first; close_edges ends it.
struct Edges {
    OpenEdges dependencies, children, waits;
};

// Whether others depend on the job, have spawned it or await it, unfinished or not.
bool has_edges_to(Edges *edges, int64 job);
// Whether it has edges of its own, which go with it.
bool has_edges_from(Edges *edges, int64 job);
// Whether it waits, or waited, for dependencies.
bool has_dependencies(Edges *edges, int64 job);
void close_edges(Edges *edges);

// Those below are called inside with_spi().

// Leaves those of these ids in front, in their order, which no unfinished job needs; returns how many. `others`, unless
// nullptr, is an array that goes with ids.
int without_needed(Datum *ids, Datum *others, int count);

// Of jobs that are named by others: waits for whoever is just deleting one, and from now on nobody can unnoticed until
// the transaction ends. Returns one that is gone; 0: none is. `ids` is changed.
int64 hold_jobs(Datum *ids, int count);
// Leaves those of these ids in front, in their order, whose jobs are there; returns how many.
int jobs_there(Datum *ids, int count);

// The dependencies of a job that gets another id. 22023 when that is below one of theirs: no job depends on a later
// one.
void move_dependencies(int64 from, int64 to);

// This job has been deleted. `result` is nullptr unless it has one.
void forget_edges(int64 job, bool completed, const Datum *result);
// Whether forget_edges() may have anything to do. Next to free.
bool any_edge();
// All jobs have been deleted.
void forget_all_edges();

// Deletes some rows of jobq.deleted_dependencies that nobody needs any more.
void prune_deleted_dependencies(int batch);

}  // namespace jobq
