// Counts the sleeping workers of each queue, for explanations and metrics. waiters.h declares these functions.
#include "compat/pg.h"

#include "waiters/waiter.h"
#include "waiters/waiters.h"

#include <algorithm>

namespace jobq {

QueueSleepers *read_sleepers(int *queues) {
    *queues = 0;
    if (!shared_memory_ready()) return nullptr;
    auto *found = static_cast<QueueSleepers *>(palloc(sizeof(QueueSleepers) * MaxBackends));
    for (int i = 0; i < kLockPartitions; i++) {
        LWLockAcquire(lock_of(i), LW_SHARED);
        for_each_sleeper<Waiter>(&waiters->partitions[i].list, [&](const Waiter *waiter) {
            if (waiter->awake || waiter->queues.several) return;
            QueueSleepers *end = found + *queues;
            QueueSleepers *same = std::find_if(
                found, end, [&](const QueueSleepers &one) { return same_queue(one.queue, waiter->queue); });
            if (same == end) {
                if (*queues == MaxBackends) return;
                memcpy(same->queue, waiter->queue, sizeof(QueueName));
                same->count = 0;
                ++*queues;
            }
            same->count++;
        });
        LWLockRelease(lock_of(i));
    }
    return found;
}

SleeperCount count_sleepers(std::string_view queue_name) {
    SleeperCount count = {};
    if (!shared_memory_ready()) return count;
    const QueueKey queue = key_of_queue(queue_name);
    for (const int index : {partition_of(queue), kSeveralQueues}) {
        LWLockAcquire(lock_of(index), LW_SHARED);
        for_each_sleeper<Waiter>(&waiters->partitions[index].list, [&](const Waiter *waiter) {
            int place;
            if (waiter->awake || waits_for(*waiter, queue, &place) == core::Wants::No) return;
            count.all++;
            count.several += waiter->queues.several;
        });
        LWLockRelease(lock_of(index));
    }
    return count;
}

}  // namespace jobq
