// See groups.h. Making a job the head of its group costs two index lookups and an update of the job.
//
// While an old transaction is open, the index entries of former heads cannot be removed, and every scan for a group
// that has had many heads would pass all of these entries. So the process remembers the last head of each group, and
// checks with one lookup by id whether that job is still active. The remembered head is valid until another transaction
// makes the next job the head (groups/successors.h). In addition, shared memory records where the line of a group
// begins (groups/line_start.h).
#include "compat/pg.h"

#include "compat/memory.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "groups/groups.h"
#include "groups/line.h"
#include "groups/line_start.h"
#include "groups/successors.h"
#include "row/jobs_table.h"

extern "C" {
#include "access/relscan.h"
#include "utils/fmgroids.h"
}

namespace jobq {

namespace {

// Position of the group's column in the indexes JobIndex::GroupWaiting and JobIndex::GroupActive.
constexpr AttrNumber kGroup = 1;

struct Remembered {
    int64 group;
    int64 active;  // the last head of the group; another job can be active only if a commit has made that job the head
    uint64 mark;   // succession_mark(), called before `active` was read
    bool used;
};
constexpr int kRemembered = 4096;
Remembered remembered[kRemembered];
bool any_remembered = false;

Remembered *place_of(int64 group) { return &remembered[static_cast<uint64>(group) % kRemembered]; }

// Returns the remembered head of the group, or nullptr if no head is remembered or the remembered head is outdated. The
// caller must already have taken its snapshot.
Remembered *recall(int64 group) {
    Remembered *place = place_of(group);
    return place->used && place->group == group && no_succession_since(group, place->mark) ? place : nullptr;
}

void remember(int64 group, int64 active, uint64 mark) {
    *place_of(group) = {group, active, mark, true};
    any_remembered = true;
}

// The open table and scans of its indexes under one snapshot. If the table is read with SQL, the scans are not used.
struct GroupScan {
    JobsTable jobs;
    Line line;
    Relation waiting, active;
    IndexScanDesc by_active, groups;
};

void open_groups(GroupScan *scan) {
    open_jobs(&scan->jobs);
    renew_snapshot(&scan->jobs);
    scan->line = {};
    const Table &table = scan->jobs.table;
    if (table.by_sql) return;
    scan->waiting = open_job_index(JobIndex::GroupWaiting);
    scan->active = open_job_index(JobIndex::GroupActive);
    scan->by_active = begin_index_scan(table.relation, scan->active, table.snapshot, 1);
    scan->groups = begin_index_scan(table.relation, scan->waiting, table.snapshot, 1);
    // The scan returns the group from the index entry, without reading the row.
    scan->groups->xs_want_itup = true;
}

void close_groups(GroupScan *scan) {
    if (!scan->jobs.table.by_sql) {
        for (IndexScanDesc each : {scan->by_active, scan->groups}) index_endscan(each);
        index_close(scan->waiting, NoLock);
        index_close(scan->active, NoLock);
    }
    close_line(&scan->line);
    close_jobs(&scan->jobs);
}

// Returns whether the group has an active job (a head), and reads that job into the table's row.
bool find_active(GroupScan *scan, int64 group) {
    if (scan->jobs.table.by_sql) return find_active_by_sql(&scan->jobs.table, group);
    ScanKeyData key;
    ScanKeyInit(&key, kGroup, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(group));
    index_rescan(scan->by_active, &key, 1, nullptr, 0);
    return index_getnext_slot(scan->by_active, ForwardScanDirection, scan->jobs.table.row);
}

bool is_active(GroupScan *scan, int64 job, int64 group) {
    return find_job(&scan->jobs, job) && job_has(scan->jobs, kJobGroupActive) &&
           DatumGetInt64(job_value(scan->jobs, kJobGroupActive)) == group;
}

// Sets *group to the next higher group number for which the index has entries, even if the rows of these entries are
// not visible. Returns false if there is no such number.
bool next_group(GroupScan *scan, int64 *group) {
    if (scan->jobs.table.by_sql) return next_group_by_sql(scan->jobs.table, group);
    ScanKeyData key;
    ScanKeyInit(&key, kGroup, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(*group));
    index_rescan(scan->groups, &key, 1, nullptr, 0);
    if (index_getnext_tid(scan->groups, ForwardScanDirection) == nullptr) return false;
    bool is_null;
    *group = DatumGetInt64(index_getattr(scan->groups->xs_itup, kGroup, scan->groups->xs_itupdesc, &is_null));
    return true;
}

// A group that might need a new head.
struct Candidate {
    int64 group;
    uint64 mark;    // succession_mark(), called before the snapshot was taken
    int look;       // the number of the scan of the group's line (begin_line_look())
    bool believed;  // use the remembered head and the recorded beginning of the line
};

// Makes the next job in the line of a group the head of the group, unless the group has a head.
void promote_group(GroupScan *scan, const Candidate &one, Unblocking *done) {
    const int64 group = one.group;
    Remembered *known = one.believed ? recall(group) : nullptr;
    const int64 first = one.believed ? line_start(one.look) : PG_INT64_MIN;
    if (known != nullptr) {
        if (is_active(scan, known->active, group)) return;
    } else if ((first > PG_INT64_MIN && is_active(scan, first, group)) || find_active(scan, group)) {
        // The job whose id was last recorded as the beginning of the line is most likely the current head, so this job
        // is checked first.
        remember(group, DatumGetInt64(job_value(scan->jobs, kJobId)), one.mark);
        return;
    }
    scan->line.passed = 0;
    if (first_in_line(&scan->jobs, &scan->line, group, first, PG_INT64_MAX, kPassAny) != InLine::Found) return;
    const int64 job = DatumGetInt64(job_value(scan->jobs, kJobId));
    found_line_start(one.look, job, scan->line.passed, first == PG_INT64_MIN);
    if (!make_head(&scan->jobs, state_of(scan->jobs), done->now)) {
        look_again({group, kNoJob, Blocker::Group});
        return;
    }
    remember(group, job, one.mark);
    done->outcome.done++;
}

// Calls promote_group() for each of the given groups. For the meaning of `believe`, see Candidate::believed.
void promote_groups(const Unblocked *groups, int count, bool believe, Unblocking *done) {
    auto *candidates = allocate_array<Candidate>(count);
    for (int i = 0; i < count; i++)
        candidates[i] = {groups[i].key, succession_mark(groups[i].key), begin_line_look(groups[i].key), believe};
    GroupScan scan;
    open_groups(&scan);
    for (int i = 0; i < count; i++) promote_group(&scan, candidates[i], done);
    close_groups(&scan);
    pfree(candidates);
}

// Calls promote_groups() in a subtransaction or, if that fails, in one subtransaction per group. So a job that cannot
// be changed, for example because a user-defined trigger raises an error, blocks only its own group.
void promote_carefully(const Unblocked *groups, int count, bool believe, Unblocking *done) {
    FailureText failure;
    const int64 done_before = done->outcome.done;
    if (attempt([&] { promote_groups(groups, count, believe, done); }, &failure)) return;
    done->outcome.done = done_before;
    for (int i = 0; i < count; i++) place_of(groups[i].key)->used = false;
    for (int i = 0; count > 1 && i < count; i++) promote_carefully(groups + i, 1, believe, done);
    if (count > 1) return;
    look_again(*groups);
    if (done->outcome.failed++ > 0) return;
    snprintf(done->outcome.error, sizeof(done->outcome.error), "the next job of group " INT64_FORMAT ": %s",
             groups->key, failure.message);
}

void promote(const Unblocked *groups, int count, bool believe, Unblocking *done) {
    if (count == 0) return;
    if (done->careful)
        promote_carefully(groups, count, believe, done);
    else
        promote_groups(groups, count, believe, done);
}

Statement find_waiting = {"SELECT EXISTS (SELECT FROM jobq.jobs j WHERE j._group_waiting IS NOT NULL)", {}};

}  // namespace

void look_at_groups(const Unblocked *published, int count, Unblocking *done) { promote(published, count, true, done); }

bool search_groups(SearchPlace *place, int limit, Unblocking *done) {
    auto *groups = static_cast<Unblocked *>(palloc(sizeof(Unblocked) * limit));
    int count = 0;
    GroupScan scan;
    open_groups(&scan);
    for (; count < limit && next_group(&scan, &place->behind); count++) {
        CHECK_FOR_INTERRUPTS();
        groups[count] = {place->behind, kNoJob, Blocker::Group};
    }
    close_groups(&scan);
    promote(groups, count, false, done);
    pfree(groups);
    return count == limit;
}

void forget_groups() {
    if (any_remembered) memset(remembered, 0, sizeof(remembered));
    any_remembered = false;
}

bool any_group_waits() { return run(find_waiting, Params())[0].bool_at(1); }

}  // namespace jobq
