// The members of batches: jobs with a batch_id. An enqueue checks whether a job may join its batch, and code that
// deletes jobs counts the members that it deletes. No change of a member changes a row of its batch, so members never
// wait for each other.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "queues/scope.h"

namespace jobq {

// Joins the batch on behalf of a new job: locks the batch so that it cannot be sealed until the transaction ends, and
// raises an error if a job must not join it: 22023 if the batch does not exist, 0A000 if it is on another shard, 42501
// if the caller is not allowed to use it, and 55000 if it has been sealed. A caller that holds the lease of a member of
// `held_batch` is allowed to use that batch; 0: none.
void join_batch(int64 batch, const QueueScope *scope, int64 held_batch = 0);
// Locks the batch so that no job can join it until the transaction ends. Waits for transactions that have added
// members.
void stop_joining(int64 batch);

// A batch as jobq_seal_batch() and jobq_get_batch() see it.
struct BatchUse {
    bool exists, allowed, sealed;
};
// Reads the batch under the latest snapshot. `allowed` means that the current user may use all queues or has the
// privileges of the role that created the batch.
BatchUse look_up_batch(int64 batch, const QueueScope *scope);
[[noreturn]] void refuse_batch_use(int64 batch);

// Returns the batch that the job has joined, or 0. Call it inside with_spi(), with the owner's privileges.
int64 batch_of_job(int64 job);

// A deleted job that had joined a batch.
struct GoneMember {
    int64 batch;
    core::JobStatus status;
};
// These functions must be called inside with_spi(), with the owner's privileges. count_gone_members() adds deleted jobs
// to the counts of their batches; a job that had not ended counts as canceled. forget_all_batches() deletes all
// batches.
void count_gone_members(const GoneMember *members, int count);
void forget_all_batches();

}  // namespace jobq
