// See line.h.
#include "compat/pg.h"

#include "groups/line.h"

extern "C" {
#include "access/relscan.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

// Columns of the index of jobs that wait in the lines of their groups.
enum LineColumn : AttrNumber { kGroup = 1, kWaitingId };
constexpr int kKeys = 3;

}  // namespace

InLine first_in_line(JobsTable *jobs, Line *line, int64 group, int64 first_id, int64 last_id, int most_passed) {
    Table *table = &jobs->table;
    if (table->by_sql) return find_waiting_by_sql(table, group, first_id) ? InLine::Found : InLine::Nobody;
    if (line->index == nullptr) {
        line->index = open_job_index_if_good(JobIndex::GroupWaiting);
        if (line->index == nullptr) return InLine::TooFar;
        line->scan = begin_index_scan(table->relation, line->index, table->snapshot, kKeys);
    }
    ScanKeyData keys[kKeys];
    ScanKeyInit(&keys[0], kGroup, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(group));
    ScanKeyInit(&keys[1], kWaitingId, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(first_id));
    ScanKeyInit(&keys[2], kWaitingId, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(last_id));
    index_rescan(line->scan, keys, kKeys, nullptr, 0);
    for (int passed = 0; passed < most_passed; passed++) {
        if (index_getnext_tid(line->scan, ForwardScanDirection) == nullptr) return InLine::Nobody;
        if (index_fetch_heap(line->scan, table->row)) return InLine::Found;
        line->passed++;
    }
    return InLine::TooFar;
}

void close_line(Line *line) {
    if (line->index == nullptr) return;
    index_endscan(line->scan);
    index_close(line->index, NoLock);
}

bool make_head(JobsTable *jobs, const JobState &next, TimestampTz now) {
    // If another session has locked the row, does not wait and does not try the next job in line, because that job
    // would overtake the locked job.
    if (!reach_row_or_skip(&jobs->table)) return false;
    // Uses the current time, so that a deadline that has passed since the call began counts as passed.
    const core::Event event = {core::EventKind::BecameGroupHead, Max(now, GetCurrentTimestamp())};
    return !core::applies(event.kind, next.life) ||
           write_life(jobs, next, core::after_event(next.life, event), {}, nullptr, LockWaitSkip);
}

}  // namespace jobq
