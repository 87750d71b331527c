// See job_scans.h.
#include "compat/pg.h"

#include "row/job_scans.h"

#include <algorithm>

namespace jobq {

namespace {

ReadyScan *open_ready(JobsTable *jobs) {
    if (jobs->ready.index == nullptr) jobs->ready.index = open_job_index(JobIndex::Ready);
    return &jobs->ready;
}

ReadyScan *open_round_robin(JobsTable *jobs) {
    if (jobs->ready.round_robin == nullptr) jobs->ready.round_robin = open_job_index(JobIndex::RoundRobin);
    return &jobs->ready;
}

ReadyScan *open_due(JobsTable *jobs) {
    if (jobs->ready.due == nullptr) jobs->ready.due = open_job_index(JobIndex::Due);
    return &jobs->ready;
}

ReadyScan *open_running(JobsTable *jobs) {
    if (jobs->ready.running == nullptr) jobs->ready.running = open_job_index(JobIndex::Running);
    return &jobs->ready;
}

bool next_lane_and_key(JobsTable *jobs, int64 *lane, core::ClaimKey *first) {
    return jobs->table.by_sql ? next_lane_by_sql(jobs->table, lane, first)
                              : next_lane_of(open_ready(jobs), jobs->table, lane, first);
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
        // next_lane_and_key() searches for a lane after a given one, so it cannot find the lane with the lowest
        // possible number. This lane is assumed to have entries.
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
        seek_by_sql(&jobs->walk, lane, from, core::kLastKey);
    else
        seek_entry(open_ready(jobs), jobs->table, lane, from, expected);
}

void seek_ready_range(JobsTable *jobs, int64 lane, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_by_sql(&jobs->walk, lane, from, to);
    else
        seek_entry_range(open_ready(jobs), jobs->table, lane, from, to);
}

bool next_round_robin_key(JobsTable *jobs, int64 lane, int64 *key) {
    return jobs->table.by_sql ? next_round_robin_key_by_sql(jobs->table, lane, key)
                              : next_round_robin_key_of(open_round_robin(jobs), jobs->table, lane, key);
}

void seek_round_robin_key(JobsTable *jobs, int64 lane, int64 key, const core::ClaimKey &from) {
    if (jobs->table.by_sql)
        seek_round_robin_key_by_sql(&jobs->walk, lane, key, from);
    else
        seek_entry_of_round_robin_key(open_round_robin(jobs), jobs->table, lane, key, from);
}

void seek_due(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_due_by_sql(&jobs->walk, from, to);
    else
        seek_due_entry(open_due(jobs), jobs->table, from, to);
}

void seek_running(JobsTable *jobs, const core::ClaimKey &from, const core::ClaimKey &to) {
    if (jobs->table.by_sql)
        seek_running_by_sql(&jobs->walk, from, to);
    else
        seek_running_entry(open_running(jobs), jobs->table, from, to);
}

bool next_ready(JobsTable *jobs, core::ClaimKey *key) {
    return jobs->table.by_sql ? next_by_sql(&jobs->walk, jobs->table, key) : next_entry(&jobs->ready, jobs->table, key);
}

bool fetch_ready(JobsTable *jobs) {
    if (!jobs->table.by_sql) return index_fetch_heap(jobs->ready.current, jobs->table.row);
    fetch_by_sql(jobs->walk, &jobs->table);
    return true;
}

}  // namespace jobq
