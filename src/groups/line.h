// The line of a group consists of its blocked jobs, in the order of their ids. The first job in line becomes the next
// head.
#pragma once

#include "compat/pg.h"
#include "job/change_job.h"

namespace jobq {

// A scan of the index of lines. Must be zeroed before use. first_in_line() opens the index when it needs the index, and
// close_line() closes it.
struct Line {
    Relation index;
    IndexScanDesc scan;
    // Number of stale index entries (entries of jobs that have left the line) that scans have passed since the caller
    // set the number to zero. If the table is read with SQL, stale entries are not counted.
    int32 passed;
};

enum class InLine : uint8 {
    Nobody,  // the snapshot shows no such job in line
    Found,   // the job is in table.row
    // The scan has passed `most_passed` entries of jobs that have left the line, or the index cannot be used because
    // another session is dropping or rebuilding it.
    TooFar,
};
constexpr int kPassAny = PG_INT32_MAX;

// In the line of the group, finds the first job with an id between first_id and last_id. Does not read the index
// entries after last_id, because a page can contain hundreds of them. If the table is read with SQL, ignores last_id
// and most_passed.
InLine first_in_line(JobsTable *jobs, Line *line, int64 group, int64 first_id, int64 last_id, int most_passed);
void close_line(Line *line);

// Makes `next`, the job in table.row, the head of its group. `now` is the time at which the caller's call began; the
// job might have been enqueued later. Returns false if another session has locked the row, or has changed it since the
// snapshot was taken. Never waits. Does nothing to a job that is in line but not blocked; such a job was changed while
// the triggers were disabled.
bool make_head(JobsTable *jobs, const JobState &next, TimestampTz now);

}  // namespace jobq
