// See children.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/spi.h"
#include "edges/children.h"
#include "table/table_in_use.h"

#include <algorithm>

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

int64 hold_children(Datum *ids, int count) {
    if (count == 0) return 0;
    std::sort(ids, ids + count, [](Datum a, Datum b) { return DatumGetInt64(a) < DatumGetInt64(b); });
    count = static_cast<int>(std::unique(ids, ids + count) - ids);
    const Rows held = run(hold, Params().add(array_of(ids, count, INT8OID)));
    for (int i = 0; i < count; i++)
        if (static_cast<uint64>(i) == held.size() || held[i].int64_at(1) != DatumGetInt64(ids[i]))
            return DatumGetInt64(ids[i]);
    return 0;
}

int children_there(Datum *ids, int count) {
    if (count == 0) return 0;
    const Rows there = run(find, Params().add(array_of(ids, count, INT8OID)));
    for (uint64 i = 0; i < there.size(); i++) ids[i] = there[i].get(1);
    return static_cast<int>(there.size());
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
