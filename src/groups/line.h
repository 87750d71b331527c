// The line of a group: its blocked jobs, in the order of their ids, and how the first of them becomes the head.
#pragma once

#include "compat/pg.h"
#include "job/change_job.h"

namespace jobq {

// Zero at first; the index is opened when it is needed.
struct Line {
    Relation index;
    IndexScanDesc scan;
    int32 passed;  // entries of jobs that have left it, since somebody set this to 0; by SQL nobody counts them
};

enum class InLine : uint8 {
    Nobody,  // that the snapshot sees
    Found,   // in table.row
    TooFar,  // `most_passed` entries are of versions of jobs that it does not see: they have left the line. Or there is
             // no index to read, while it is dropped or made anew concurrently
};
constexpr int kPassAny = PG_INT32_MAX;

// The first in the line of a group, of those with ids from first_id to last_id. Entries behind the last one are not
// even read, of which a page may have hundreds. By SQL there is no last_id, and any number of entries is passed.
InLine first_in_line(JobsTable *jobs, Line *line, int64 group, int64 first_id, int64 last_id, int most_passed);
void close_line(Line *line);

// `next`, the job in table.row, which that has left there, becomes the head of its group. `now`: of the call; jobs have
// come since. False: somebody holds the row, or has changed it since the snapshot. Never waits. Nothing happens to a
// job that is in line, but not blocked: one that was changed behind the triggers' back.
bool make_head(JobsTable *jobs, const JobState &next, TimestampTz now);

}  // namespace jobq
