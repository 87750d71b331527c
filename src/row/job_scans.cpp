// See job_scans.h.
#include "compat/pg.h"

#include "row/job_scans.h"

#include <algorithm>

namespace jobq {

namespace {

bool next_lane_and_key(JobsTable *jobs, int64 *lane, core::ClaimKey *first) {
    return jobs->table.by_sql ? next_lane_by_sql(jobs->table, lane, first)
                              : next_lane_of(&jobs->ready, jobs->table, lane, first);
}

}  // namespace

bool next_lane(JobsTable *jobs, int64 *lane) {
    core::ClaimKey first;
    return next_lane_and_key(jobs, lane, &first);
}

bool next_lane_with_entries(JobsTable *jobs, LaneWalk *walk, int64 *lane, core::ClaimKey *first) {
    while (walk->at < walk->count) {
        CHECK_FOR_INTERRUPTS();
        const int64 next = walk->lanes[walk->at];
        int64 found = next - 1;
        // next_lane_and_key() searches for a lane after a given lane, so it cannot find the lane with the lowest
        // possible number. Therefore, the lane with that number is assumed to have entries.
        if (next == PG_INT64_MIN)
            *first = core::kFirstKey;
        else if (!next_lane_and_key(jobs, &found, first))
            break;
        if (next == PG_INT64_MIN || found == next) {
            walk->at++;
            *lane = next;
            return true;
        }
        const int64 *end = walk->lanes + walk->count;
        walk->at = static_cast<int>(std::lower_bound(walk->lanes + walk->at, end, found) - walk->lanes);
        if (walk->at < walk->count && walk->lanes[walk->at] == found) {
            walk->at++;
            *lane = found;
            return true;
        }
    }
    walk->at = walk->count;
    return false;
}

void seek_ready(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &expected) {
    if (jobs->table.by_sql)
        seek_by_sql(&jobs->walk, SqlWalk::Lane, from, core::kLastKey, lane);
    else
        seek_entry(&jobs->ready, jobs->table, lane, from, expected);
}

void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_by_sql(&jobs->walk, SqlWalk::Lane, from, to, lane);
    else
        seek_entry_range(&jobs->ready, jobs->table, lane, from, to);
}

bool next_round_robin_key(JobsTable *jobs, int64 lane, int64 *key) {
    return jobs->table.by_sql ? next_round_robin_key_by_sql(jobs->table, lane, key)
                              : next_round_robin_key_of(&jobs->ready, jobs->table, lane, key);
}

void seek_round_robin_key(JobsTable *jobs, int64 lane, int64 key, const core::ClaimKey &from) {
    if (jobs->table.by_sql)
        seek_by_sql(&jobs->walk, SqlWalk::RoundRobinKey, from, core::kLastKey, lane, key);
    else
        seek_entry_of_round_robin_key(&jobs->ready, jobs->table, lane, key, from);
}

void seek_due(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_by_sql(&jobs->walk, SqlWalk::Due, from, to);
    else
        seek_due_entry(&jobs->ready, jobs->table, from, to);
}

void seek_running(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_by_sql(&jobs->walk, SqlWalk::Running, from, to);
    else
        seek_running_entry(&jobs->ready, jobs->table, from, to);
}

bool next_ready(JobsTable *jobs, core::ClaimKey *key) {
    return jobs->table.by_sql ? next_by_sql(&jobs->walk, jobs->table, key) : next_entry(&jobs->ready, jobs->table, key);
}

bool fetch_ready(JobsTable *jobs) {
    if (!jobs->table.by_sql) return index_fetch_heap(jobs->ready.current, jobs->table.row);
    fetch_by_sql(jobs->walk, &jobs->table);
    return true;
}

bool has_expired(TupleTableSlot *row) {
    bool never;
    const Datum expires_at = job_value(row, kJobExpiresAt, &never);
    return !never && DatumGetTimestampTz(expires_at) <= GetCurrentTimestamp();
}

bool fetch_claimable(JobsTable *jobs) {
    if (!fetch_ready(jobs)) return false;
    const bool expired = has_expired(jobs->table.row);
    jobs->met_expired |= expired;
    return !expired;
}

}  // namespace jobq
