// Claims from several queues (claim_jobs_of_any() in claim.h).
#include "compat/pg.h"

#include "claim/claim_part.h"
#include "compat/args.h"
#include "waiters/claims.h"

#include <algorithm>

namespace jobq {

namespace {

// The queue in which the last claim of this session from several queues left a suspect. The next claim takes the
// suspect before any other job. Otherwise, the suspect would wait as long as an earlier queue always has jobs.
QueueName suspect_left_in;

// The state of one queue of a claim from several queues.
struct QueuePart {
    bool read;          // the claim has tried to take jobs of the queue
    bool left_jobs;     // the claim might have left jobs of the queue
    int room;           // number of jobs that the claim may still take from the queue
    bool has_jobs;      // if the claim takes the oldest jobs first: the queue might have a claimable job
    core::Micros next;  // run_at of this job
};

// Returns whether the claim must not take any more jobs.
bool is_over(const WholeClaim &whole, const ClaimRequest &request) {
    return whole.count >= request.batch || whole.took_suspect || whole.sink_is_full;
}

void claim_from(const ClaimRequest &request, const QueueToClaim &queue, int batch, TimestampTz now, ClaimSink *sink,
                WholeClaim *whole, QueuePart *part) {
    ClaimRequest limited = request;
    limited.batch = Min(Min(batch, part->room), request.batch - whole->count);
    whole->left_jobs = false;
    const int count = claim_part(limited, queue.name, now, sink, whole);
    part->read = true;
    part->left_jobs = whole->left_jobs;
    part->room -= count;
    part->has_jobs = count > 0;
    whole->count += count;
}

// Takes the suspect that the last claim of this session has left in one of the queues, if it is the next job of that
// queue.
void claim_left_suspect(const ClaimRequest &request, const QueueToClaim *queues, int count, TimestampTz now,
                        ClaimSink *sink, WholeClaim *whole, QueuePart *parts) {
    const std::string_view name = queue_view(suspect_left_in);
    const QueueToClaim *queue =
        std::find_if(queues, queues + count, [&](const auto &each) { return each.name == name; });
    if (name.empty() || queue == queues + count) return;
    whole->only_suspect = true;
    claim_from(request, *queue, 1, now, sink, whole, &parts[queue - queues]);
    whole->only_suspect = false;
    // If the suspect is gone, the claim has not read the other jobs of the queue.
    if (!whole->took_suspect) parts[queue - queues].read = false;
    suspect_left_in[0] = '\0';
}

void claim_in_order(const ClaimRequest &request, const QueueToClaim *queues, int count, TimestampTz now,
                    ClaimSink *sink, WholeClaim *whole, QueuePart *parts) {
    for (int i = 0; i < count && !is_over(*whole, request); i++)
        if (parts[i].room > 0) claim_from(request, queues[i], request.batch, now, sink, whole, &parts[i]);
}

void claim_oldest_first(const ClaimRequest &request, const QueueToClaim *queues, int count, TimestampTz now,
                        ClaimSink *sink, WholeClaim *whole, QueuePart *parts) {
    for (int i = 0; i < count; i++)
        parts[i].has_jobs = parts[i].room > 0 && find_next_run_at(request, queues[i].name, now, &parts[i].next);
    while (!is_over(*whole, request)) {
        QueuePart *first = nullptr;
        for (QueuePart *part = parts; part < parts + count; part++)
            if (part->has_jobs && (first == nullptr || part->next < first->next)) first = part;
        if (first == nullptr) return;
        const QueueToClaim &queue = queues[first - parts];
        claim_from(request, queue, 1, now, sink, whole, first);
        if (!first->has_jobs) continue;
        // The next scan must not see the job that this claim has taken.
        CommandCounterIncrement();
        first->has_jobs = first->room > 0 && find_next_run_at(request, queue.name, now, &first->next);
    }
}

}  // namespace

int claim_jobs_of_any(const ClaimRequest &request, const QueueToClaim *queues, int count, bool oldest_first,
                      TimestampTz now, ClaimSink *sink) {
    auto *names = static_cast<std::string_view *>(palloc(sizeof(std::string_view) * Max(count, 1)));
    auto *parts = static_cast<QueuePart *>(palloc0(sizeof(QueuePart) * Max(count, 1)));
    for (int i = 0; i < count; i++) {
        names[i] = queues[i].name;
        parts[i].room = queues[i].batch;
    }
    const ClaimedQueues all = {names, count};
    begin_claim(all, view(request.worker_id));
    WholeClaim whole = {};
    claim_left_suspect(request, queues, count, now, sink, &whole, parts);
    if (oldest_first)
        claim_oldest_first(request, queues, count, now, sink, &whole, parts);
    else
        claim_in_order(request, queues, count, now, sink, &whole, parts);
    const bool asked = leave_after_claim(all);
    // Other sessions rely on a worker that has waited for these queues to find the jobs in all of them. So a claim that
    // has not read some of the queues checks whether it has left jobs there.
    const bool checks_unread = ends_wait_for_several() && is_over(whole, request);
    bool passed_on = false;
    for (int i = 0; i < count && !passed_on; i++) {
        const bool left = parts[i].left_jobs || (checks_unread && !parts[i].read) || (asked && is_asked_for(names[i]));
        if (left && anybody_waits(names[i])) passed_on = wake_for_jobs_left_in(request, names[i], now);
    }
    end_claim(request.filter, whole.count, all);
    if (whole.suspect[0] != '\0') memcpy(suspect_left_in, whole.suspect, sizeof(QueueName));
    return whole.count;
}

}  // namespace jobq
