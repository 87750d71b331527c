// See successors.h.
//
// For each group, the worker remembers the last job that it has made the head. If that job is no longer active, the
// worker assumes that no other job in the group is active either. To invalidate this assumption, a transaction that
// gives a group a new head changes a counter (which several groups share) twice: before it writes the row of the head,
// and again when the transaction has ended. A session whose snapshot shows the new head then sees in the counter that
// such a transaction is in progress or has ended.
#include "compat/pg.h"

#include "compat/memory.h"
#include "groups/line.h"
#include "groups/line_start.h"
#include "groups/successors.h"
#include "job/change_job.h"
#include "lanes/lanes.h"
#include "log/logged.h"
#include "shmem/memory.h"

#include <algorithm>

namespace jobq {

namespace {

// Maximum number of stale index entries (entries of jobs that have left the line) that a transaction passes before it
// leaves the group to the background worker. If more stale entries precede the next job, most likely an old transaction
// can still see these jobs in line, and the recorded beginning of the line is unknown or precedes the entries.
constexpr int kMostPassed = 32;

constexpr int kBuckets = 32768;
constexpr uint64 kGoingOn = 1, kOver = uint64{1} << 32;
constexpr uint64 kAnyGoingOn = kOver - 1;
pg_atomic_uint64 *successions = nullptr;

// The counters of the groups for which this transaction has made heads. The counters are changed again when the
// transaction ends.
int16 begun[kMaxEndedHeads];
int begun_count = 0;

// Estimated distance between the ids of consecutive jobs in a group, based on the groups that this session has handled.
int64 usual_distance = 0;
constexpr int64 kFarthest = int64{1} << 40;

int bucket_of(int64 group) { return static_cast<int>(static_cast<uint64>(group) % kBuckets); }

// Changes the counter of the group. Call it before writing the row of a new head.
void begin_succession(int64 group) {
    if (!shared_memory_ready()) return;
    Assert(begun_count < kMaxEndedHeads);
    begun[begun_count++] = static_cast<int16>(bucket_of(group));
    pg_atomic_fetch_add_u64(&successions[bucket_of(group)], kGoingOn);
}

// Finds the first job in line whose id is at least `first`, as first_in_line() does. First searches only the ids up to
// a short distance above the id of the ended head, because the next job is most likely in that range.
InLine find_successor(JobsTable *jobs, Line *line, const EndedHead &head, int64 first) {
    const int64 near = Max(core::saturating_add(head.job, 2 * usual_distance), first);
    InLine found = first_in_line(jobs, line, head.group, first, near, kMostPassed);
    if (found == InLine::Nobody && near < PG_INT64_MAX)
        found = first_in_line(jobs, line, head.group, near + 1, PG_INT64_MAX, kMostPassed);
    if (found != InLine::Found) return found;
    const int64 distance = DatumGetInt64(job_value(*jobs, kJobId)) - head.job;
    usual_distance = Min(Max(distance, usual_distance - usual_distance / 16), kFarthest);
    return found;
}

void promote_next(JobsTable *jobs, Line *line, const EndedHead &head, int look, TimestampTz now) {
    // If another transaction is adding a job to the line, its commit publishes the group. But when the promoter then
    // checks the group, it might still see the head that the current transaction is ending. So if the line looks empty,
    // the current transaction publishes the group, too.
    const int64 first = line_start(look);
    line->passed = 0;
    if (find_successor(jobs, line, head, first) != InLine::Found) return;
    const JobState next = state_of(*jobs);
    found_line_start(look, next.id, line->passed, first == PG_INT64_MIN);
    // If another session deletes the lane of the next job in the meantime, the current transaction must create the lane
    // again, which can call a user-defined trigger. Therefore, if the lane might be deleted, the transaction leaves the
    // group to the background worker.
    if (!lane_is_seen_to_stay(next.queue, next.kind, next.lane)) return;
    begin_succession(head.group);
    if (make_head(jobs, next, now)) unlog_free_group(head.group);
}

// Keeps one head per group, because a group can have two heads after a restore. Returns the number of remaining heads.
int in_order(EndedHead *heads, int count) {
    std::sort(heads, heads + count, [](const EndedHead &a, const EndedHead &b) { return a.group < b.group; });
    const auto same = [](const EndedHead &a, const EndedHead &b) { return a.group == b.group; };
    return static_cast<int>(std::unique(heads, heads + count, same) - heads);
}

void promote_each(JobsTable *jobs, const EndedHead *ended, int count) {
    EndedHead *heads = allocate_array<EndedHead>(count);
    std::copy(ended, ended + count, heads);
    count = in_order(heads, count);
    // First publishes the jobs that this transaction itself has put into a line, so that the scans do not begin after
    // these jobs.
    publish_lines();
    int *looks = allocate_array<int>(count);
    for (int i = 0; i < count; i++) looks[i] = begin_line_look(heads[i].group);
    renew_snapshot(jobs);
    const TimestampTz now = GetCurrentTimestamp();
    Line line = {};
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        promote_next(jobs, &line, heads[i], looks[i], now);
    }
    close_line(&line);
}

}  // namespace

void promote_successors() {
    const TransactionLog &log = transaction_log();
    if (log.ended_heads_count == 0 || log.heads_left || IsolationUsesXactSnapshot() || XactReadOnly) return;
    // Does not allocate memory in the caller's context, because the memory context of a procedure outlives its COMMIT.
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    JobsTable jobs;
    if (open_jobs_if_quiet(&jobs)) {
        promote_each(&jobs, log.ended_heads, log.ended_heads_count);
        close_jobs(&jobs);
    }
    MemoryContextSwitchTo(caller);
}

void end_successions() {
    for (int i = 0; i < begun_count; i++) pg_atomic_fetch_add_u64(&successions[begun[i]], kOver - kGoingOn);
    begun_count = 0;
}

uint64 succession_mark(int64 group) {
    return shared_memory_ready() ? pg_atomic_read_u64(&successions[bucket_of(group)]) : 0;
}

bool no_succession_since(int64 group, uint64 mark) {
    // The barrier ensures that the counter is read after the snapshot was taken.
    pg_read_barrier();
    return succession_mark(group) == mark && (mark & kAnyGoingOn) == 0;
}

Size successions_size() { return sizeof(pg_atomic_uint64) * kBuckets; }

void make_successions(void *memory, bool fresh) {
    successions = static_cast<pg_atomic_uint64 *>(memory);
    if (!fresh) return;
    for (int i = 0; i < kBuckets; i++) pg_atomic_init_u64(&successions[i], 0);
}

}  // namespace jobq
