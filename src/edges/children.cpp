// See children.h.
#include "compat/pg.h"

#include "compat/spi.h"
#include "edges/children.h"
#include "table/table_in_use.h"

namespace jobq {

namespace {

Statement add = {
    "INSERT INTO jobq.children (parent_id, child_id) SELECT $1, u.id FROM unnest($2) AS u(id) ON CONFLICT DO NOTHING",
    {INT8OID, INT8ARRAYOID}};
Statement find = {"SELECT j.id FROM jobq.jobs j WHERE j.id = ANY ($1) ORDER BY j.id", {INT8ARRAYOID}};
Statement hold = {"SELECT j.id FROM jobq.jobs j WHERE j.id = ANY ($1) ORDER BY j.id FOR KEY SHARE", {INT8ARRAYOID}};
Statement delete_of = {"DELETE FROM jobq.children c WHERE c.parent_id = $1", {INT8OID}};
Statement delete_all = {"DELETE FROM jobq.children", {}, Planning::Free};
Statement move = {"UPDATE jobq.children c SET parent_id = $2 WHERE c.parent_id = $1", {INT8OID, INT8OID}};

}  // namespace

void add_children(int64 parent, Datum children) { run(add, Params().add(Int64GetDatum(parent)).add(children)); }

int64 hold_children(Datum children) {
    const Rows there = run(find, Params().add(children));
    const Rows held = run(hold, Params().add(children));
    for (uint64 i = 0; i < there.size(); i++)
        if (i >= held.size() || there[i].int64_at(1) != held[i].int64_at(1)) return there[i].int64_at(1);
    return 0;
}

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
