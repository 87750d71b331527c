// The arguments `queues`, `patterns`, `weights`, `oldest_first`, and `batches`, which select the queues of a claim or
// wait for several queues and their order.
#pragma once

#include "claim/claim.h"
#include "compat/args.h"
#include "compat/pg.h"
#include "queues/scope.h"

namespace jobq {

struct QueueArguments {
    Names queues;    // names that the caller has given
    Names patterns;  // core/queue_pattern.h
    // These two arrays have one element for each queue, followed by one element for each pattern, or are nullptr.
    const int32 *weights;
    const int32 *batches;
    bool oldest_first;
};

// The positions of the arguments; -1: the function does not have the argument.
struct QueueArgumentPositions {
    int queues, patterns, weights, oldest_first, batches;
};

// Checks and returns the arguments. Raises 42501 if the caller is not allowed to use one of the queues.
QueueArguments queue_arguments(FunctionCallInfo fcinfo, const QueueArgumentPositions &at);

// Returns true if the arguments only name one queue.
inline bool is_one_queue(const QueueArguments &arguments) {
    return arguments.queues.count == 1 && arguments.patterns.count == 0 && arguments.batches == nullptr;
}

// A queue that the arguments select. `entry` is the position of the queue, or of the first pattern that matches it, in
// the arrays of QueueArguments.
struct SelectedQueue {
    std::string_view name;
    int entry;
};
struct SelectedQueues {
    SelectedQueue *items;
    int count;
    int named;  // number of queues at the beginning of the list that the caller has named
};
// Returns the selected queues without duplicates: the named queues in the caller's order, and then, for each pattern,
// the queues in scope that it matches, in the order of their names. Excludes queues without lanes, because they have no
// claimable jobs. A pattern never selects a queue that the caller has named.
SelectedQueues select_queues(const QueueArguments &arguments, const QueueScope *scope);

// Returns the maximum number of jobs from the queue, which is 0 if the queue is excluded.
int batch_of(const QueueArguments &arguments, const SelectedQueue &queue, int batch);

// Claims jobs of the selected queues in the order that the arguments specify. Returns the number of claimed jobs.
int claim_selected(const ClaimRequest &request, const QueueArguments &arguments, const QueueScope *scope,
                   ClaimSink *sink);

}  // namespace jobq
