// See chain.h. The search is breadth-first. It visits each job only once, because jobs can wait for each other in a
// cycle.
#include "compat/pg.h"

#include "admin/chain.h"
#include "compat/spi.h"

#include <algorithm>

namespace jobq {

namespace {

// Selects the unfinished jobs that a blocked job waits for. A job in the line of its group waits for the head of the
// group. If there is no head, it waits for the first job in the line, unless it is the first job. OFFSET 0 prevents a
// scan of the index on id, which could read all jobs in the table.
Statement read_links = {
    R"(SELECT n.id
       FROM jobq.jobs j,
            LATERAL (SELECT e.target AS id FROM jobq.edges e JOIN jobq.jobs o ON o.id = e.target
                     WHERE e.job_id = j.id AND e.kind IN ('depends', 'awaits') AND o.status <= 'processing'
                     UNION ALL
                     SELECT g.id
                     FROM (SELECT coalesce((SELECT min(h.id) FROM (SELECT h.id FROM jobq.jobs h
                                                                   WHERE h._group_active = j._group_waiting OFFSET 0) h),
                                           (SELECT f.id FROM jobq.jobs f
                                            WHERE f._group_waiting = j._group_waiting AND f.id < j.id
                                            ORDER BY f._group_waiting, f.id LIMIT 1)) AS id
                           WHERE j._group_waiting IS NOT NULL OFFSET 0) g
                     WHERE g.id IS NOT NULL) n
       WHERE j.id = $1 AND j.status = 'blocked' LIMIT $2)",
    {INT8OID, INT8OID}};

struct Walk {
    int64 ids[kVisitedJobs];
    int depths[kVisitedJobs];
    int count;
};

bool has_found(const Walk &walk, int64 id) {
    const int64 *end = walk.ids + walk.count;
    return std::find(walk.ids, end, id) != end;
}

}  // namespace

Chain walk_chain(int64 job) {
    auto *walk = static_cast<Walk *>(palloc(sizeof(Walk)));
    walk->ids[0] = job;
    walk->depths[0] = 0;
    walk->count = 1;
    Chain chain = {};
    chain.roots = static_cast<int64 *>(palloc(sizeof(int64) * kVisitedJobs));
    for (int at = 0; at < walk->count; at++) {
        const Rows links =
            read(read_links, Params().add(Int64GetDatum(walk->ids[at])).add(Int64GetDatum(kVisitedJobs)));
        if (at == 0)
            chain.any = links.size() > 0;
        else if (links.size() == 0) {
            chain.roots[chain.root_count++] = walk->ids[at];
            chain.deep |= walk->depths[at] > 1;
        }
        for (uint64 i = 0; i < links.size(); i++) {
            const int64 id = links[i].int64_at(1);
            if (has_found(*walk, id)) continue;
            if (walk->count == kVisitedJobs) {
                if (chain.unvisited == 0) chain.unvisited = id;
                break;
            }
            walk->depths[walk->count] = walk->depths[at] + 1;
            walk->ids[walk->count++] = id;
        }
    }
    return chain;
}

}  // namespace jobq
