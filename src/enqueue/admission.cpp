// See admission.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "enqueue/admission.h"
#include "enqueue/enqueue_keyed.h"
#include "enqueue/unique.h"
#include "row/owner.h"

#include <algorithm>

namespace jobq {

namespace {

bool same_key(const Newcomer &a, const Newcomer &b) { return view(a.unique_key) == view(b.unique_key); }

// Orders the jobs by queue and, within a queue, by unique key. Jobs without a key come first.
bool comes_first(const Newcomer &a, const Newcomer &b) {
    const int order = view(a.queue).compare(view(b.queue));
    if (order != 0) return order < 0;
    if (a.unique_key == nullptr || b.unique_key == nullptr) return a.unique_key == nullptr && b.unique_key != nullptr;
    return view(a.unique_key) < view(b.unique_key);
}

// Writes the distinct keys of these sorted jobs to `keys`, which must have room for one key per job, and looks up the
// holder of each key. Returns the number of distinct keys.
int find_distinct(const Newcomer *jobs, int count, TimestampTz now, WantedKey *keys) {
    int distinct = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && same_key(jobs[i - 1], jobs[i])) continue;
        WantedKey &key = keys[distinct++] = {};
        key.queue = jobs[i].queue;
        key.unique_key = jobs[i].unique_key;
    }
    find_holders(keys, distinct, now);
    return distinct;
}

// Returns whether one of the new jobs with this key makes the queue longer. `first` is the first of these jobs.
bool makes_job(const WantedKey &key, const Newcomer *first, const Newcomer *end) {
    if (key.holder == 0) return true;
    if (key.until != 0) return false;
    // A new job replaces a holder that has expired, so the queue does not become longer.
    if (key.expired) return false;
    for (const Newcomer *job = first; job < end && same_key(*first, *job); job++) {
        const core::Conflict conflict = core::resolve_conflict(job->on_conflict, key.status);
        if (conflict == core::Conflict::TakeKey) return true;
        // If the holder is waiting and has not begun to run, the enqueue changes the holder and inserts no job.
        if (conflict == core::Conflict::Change) return has_steps(key.holder);
    }
    return false;
}

void admit_into_queue(const Newcomer *jobs, int count, TimestampTz now, const SparedJobs &needed) {
    int without_key = 0;
    while (without_key < count && jobs[without_key].unique_key == nullptr) without_key++;
    const Newcomer *end = jobs + count;
    const int keyed = count - without_key;
    auto *keys = static_cast<WantedKey *>(palloc_extended(sizeof(WantedKey) * Max(keyed, 1), MCXT_ALLOC_HUGE));
    auto *spared = allocate_array<int64>(keyed + needed.count);
    int64 added = without_key;
    std::copy(needed.ids, needed.ids + needed.count, spared);
    int spared_count = needed.count;
    const int distinct = find_distinct(jobs + without_key, keyed, now, keys);
    const Newcomer *job = jobs + without_key;
    for (int i = 0; i < distinct; i++) {
        const Newcomer *first = job;
        while (job < end && same_key(*first, *job)) job++;
        if (keys[i].holder != 0) spared[spared_count++] = keys[i].holder;
        if (makes_job(keys[i], first, end)) added++;
    }
    std::sort(spared, spared + spared_count);
    if (added > 0) make_room(view(jobs->queue), added, now, {spared, spared_count});
}

}  // namespace

void admit_jobs(Newcomer *jobs, int count, TimestampTz now, const SparedJobs &needed) {
    if (count == 0) return;
    std::sort(jobs, jobs + count, comes_first);
    with_owner_spi([&] {
        for (int first = 0, end = 0; first < count; first = end) {
            while (end < count && view(jobs[end].queue) == view(jobs[first].queue)) end++;
            admit_into_queue(jobs + first, end - first, now, needed);
        }
    });
}

}  // namespace jobq
