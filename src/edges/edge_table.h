// A table of edges between jobs, looked into whatever the snapshot: uncommitted rows count, and so does one that was
// just deleted while that is uncommitted. By it whoever deletes a job and whoever adds an edge to it notice each other.
#pragma once

#include "compat/pg.h"

namespace jobq {

// Its names, and those of its indexes: by the job that an edge begins at, and by the one that it leads to.
struct EdgeTable {
    const char *name;
    const char *from_index;
    const char *to_index;
};

// What is open of one. Zeroed at first; close_edge_table ends it.
struct OpenEdges {
    Relation table, from_index, to_index;
    TupleTableSlot *row;
};

enum class Which { Any, Uncommitted };

// Returns whether the table has any pages. Costs next to nothing.
bool any_edge_in(OpenEdges *edges, const EdgeTable &table);
bool has_edge_from(OpenEdges *edges, const EdgeTable &table, int64 job);
bool has_edge_to(OpenEdges *edges, const EdgeTable &table, int64 job, Which which = Which::Any);
void close_edge_table(OpenEdges *edges);

}  // namespace jobq
