// See children.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "edges/children.h"
#include "table/table_in_use.h"

namespace jobq {

namespace {

Statement add = {
    "INSERT INTO jobq.children (parent_id, child_id) SELECT $1, u.id FROM unnest($2) AS u(id) ON CONFLICT DO NOTHING",
    {INT8OID, INT8ARRAYOID}};
Statement delete_of = {"DELETE FROM jobq.children c WHERE c.parent_id = $1", {INT8OID}};
Statement delete_all = {"DELETE FROM jobq.children", {}, Planning::Free};
Statement move = {"UPDATE jobq.children c SET parent_id = $2 WHERE c.parent_id = $1", {INT8OID, INT8OID}};

}  // namespace

void add_children(int64 parent, Datum children) { run(add, Params().add(Int64GetDatum(parent)).add(children)); }

void forget_children(int64 parent) {
    if (is_in_use("children")) run(delete_of, Params().add(Int64GetDatum(parent)));
}

void forget_all_children() {
    if (is_in_use("children")) run(delete_all, Params());
}

void move_children(int64 from, int64 to) {
    if (is_in_use("children")) run(move, Params().add(Int64GetDatum(from)).add(Int64GetDatum(to)));
}

}  // namespace jobq
