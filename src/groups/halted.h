// Halted groups. If the setting group_on_failure of the kind or the queue is "halt", a job that fails permanently stays
// the head of its group, so the next job in line does not become the head. The group continues when the head is retried
// and finishes, or when the head is canceled, deleted, or passed over (jobq_skip). It also continues when the setting
// becomes "continue". The transaction that changes the setting does not see heads whose failures have not been
// committed, so it does not end the halts itself. The promoter does this (groups/unblock.h). The commit of a failure
// publishes the failed head, and the commit of a change of the setting requests a search. Because both do so after they
// are visible, the later of the two makes the promoter see the head and the new setting.
#pragma once

#include "compat/pg.h"
#include "groups/unblock.h"
#include "queues/scope.h"

namespace jobq {

// Passes over the failed head of a halted group: moves the job to the dead letter queue if its queue has one, and lets
// the next job become the head when the transaction commits. Returns false if the job is not the failed head of a
// halted group. Call it inside with_spi().
bool skip_job(int64 id, const QueueScope *scope, TimestampTz now);

// ---- Functions for unblock.cpp

void look_at_halted(const Unblocked *published, int count, Unblocking *done);
bool search_halted(SearchPlace *place, int limit, Unblocking *done);

}  // namespace jobq
