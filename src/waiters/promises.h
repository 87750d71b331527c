// Promises jobs to sleepers, makes sleepers scan the table, and passes promised jobs on to other sleepers if the
// sleeper to which they were promised does not claim them. Only files in this directory include this file.
#pragma once

#include "compat/pg.h"

#include "waiters/waiter.h"

namespace jobq {

// ---- Until the next "----", the caller of each function must hold the partition's lock.

inline uint64 entries_so_far() { return pg_atomic_read_u64(&waiters->entries); }

// Returns whether the sleeper was woken less than kOnItsWay ago and its claim has not ended.
inline bool is_expected(const Waiter &waiter, core::Micros now) {
    return waiter.promise.jobs > 0 && now - waiter.woken_at < kOnItsWay;
}

// Returns whether the sleeper was woken less than kOnItsWay ago and its claim has not begun. If the result is true, the
// claim will see everything that has been committed.
inline bool is_on_its_way(const Waiter &waiter, core::Micros now) {
    return is_expected(waiter, now) && !waiter.claiming;
}

void signal(Waiter *waiter, uint32 which, Alarm *alarm);
void add_lane(Promise *promise, const core::LaneTraits &lane);
// Promises at most `jobs` jobs to the sleeper, and no more than its claim has room for. Returns the number of jobs that
// it has promised. `place` is the place of the jobs' queue in the sleeper's list, or -1 if the list does not contain
// the queue.
int promise(Partition *partition, Waiter *waiter, int place, int64 jobs, const core::LaneTraits *lane, uint64 made_at,
            core::Micros now);
// Promises jobs of a lane to a sleeper if its filter accepts the lane. Returns the number of jobs that it has promised.
int offer(Partition *partition, Waiter *waiter, int place, const core::LaneTraits &lane, int64 jobs, uint64 made_at,
          core::Micros now, Alarm *alarm);
// Makes the sleeper scan the table for at most `jobs` jobs. Returns the number of jobs for which the sleeper scans.
// `place` is the same as in promise().
int64 assign_jobs(Partition *partition, Waiter *waiter, int place, int64 jobs, core::Micros now, Alarm *alarm);
// Makes sleepers scan the table that might wait for the queue because of a pattern. Call it if sleepers that list the
// queue cannot take all of its jobs.
void let_unlisted_look(Partition *partition, const QueueKey &queue, int64 jobs, core::Micros now, Alarm *alarm);

// ---- The functions from here to the end of the file acquire the partition's lock themselves.

// Calls body(partition, now, alarm) for the partition of the queue, and then for the partition of the sessions that
// wait for several queues. Skips empty partitions, and the second partition if body() has returned false.
template <typename Body>
void with_waiters_of(const QueueKey &queue, Body body) {
    bool goes_on = true;
    for (const int index : {partition_of(queue), kSeveralQueues})
        if (goes_on && has_waiters(index))
            with_partition(index, [&](Partition *partition, core::Micros now, Alarm *alarm) {
                goes_on = body(partition, now, alarm);
            });
}

// Makes sleepers scan the table for jobs of the queue.
void let_look_for(const QueueKey &queue, int64 jobs);
// Promises jobs of a lane to sleepers that were in the list at `made_at`.
void offer_jobs(const QueueKey &queue, const core::LaneTraits &lane, int64 jobs, uint64 made_at);

// The queues for which a session has waited, and the jobs that were promised to the session.
struct Trip {
    Promise promise;
    QueueBits asked;
    uint64 filter_hash;
    uint64 wait_hash;
    bool several;
    int count;
    uint64 digests[kListedQueues];
    QueueBits excluded;  // see QueueSet
};
void begin_trip(const Waiter &waiter, Trip *trip);
// Promises jobs to other sleepers when the sleeper to which they were promised does not claim all of them. Considers
// only sleepers that were in the list when the promise was made, because sleepers that were added later have scanned
// the table since then. Therefore, a job that no claim takes is not promised again and again.
void hand_on(const Trip &trip);
// Makes another sleeper scan the table for jobs of these queues. One sleeper per filter is enough, because a claim that
// leaves jobs wakes the next sleeper.
void let_others_look(const Trip &trip);

}  // namespace jobq
