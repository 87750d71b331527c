// What a transaction tells the rest of the server once it has committed and everybody can see it: deadlines to the
// background worker, jobs that became claimable to whoever waits for them. Remembered in the session until then, so
// that a call costs a few comparisons and nothing is told of what rolls back, except that a rolled-back savepoint may
// be told of: all of it is hints, and every reader looks at the table.
#pragma once

#include "core/claim_key.h"
#include "core/wake.h"
#include "pg/pg.h"
#include "shared/prepared.h"
#include "shared/slots.h"

#include <string_view>

namespace jobq {

// Tells the background worker of this database, when the current transaction commits, that something is due at
// `when` (a lease runs out, a job becomes due). Costs nothing when something earlier is known already.
void publish_due_at_commit(TimestampTz when);

// The same for a running job that the table marks as watched: its lease runs out, or its cancellation is to be forced,
// at `when`; DT_NOBEGIN: perhaps at once.
void publish_lease_deadline_at_commit(TimestampTz when);

// Of the watched jobs, the current transaction's included.
Horizon horizon();
// A look at all watched jobs begins, whose result publish_horizon_at_commit tells. What others publish in between goes
// first. 0: it shall not be told of, since the transaction's snapshot is older than the look, or nobody would be.
uint64 begin_horizon_scan();
void publish_horizon_at_commit(uint64 version, const Horizon &found);

// A claim found nothing because of marks: a round shall come within the tick interval, although nothing may be
// unfinished, and find what was made claimable without a word. Raises no error.
void ask_for_round(TimestampTz now);

// A job of this queue and lane becomes claimable with the current transaction. For tell_ready() (store/lanes.h), which
// every statement that makes a job pending calls for each of its jobs. `is_new`: nobody can have claimed it before.
// True: the lane is to be described, once, for those who sleep; otherwise they look for themselves.
bool publish_ready_at_commit(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new);
void describe_ready_lane(const core::LaneTraits &traits);

// The current transaction claims jobs: should it or a savepoint of it roll back, they are claimable again.
void publish_claim_at_abort();

// Whether the current transaction has made jobs of this lane claimable, which nobody has been told of yet.
bool has_unpublished_jobs(int64 lane);

// The current transaction changes the settings of a queue, or of any queue when the name is empty: it may have been
// resumed.
void publish_settings_at_commit(std::string_view queue);

// A job finishes with the current transaction, or goes: whoever waits for it is woken, jobs too. Every statement that
// ends jobs must say so for each of its jobs, or for any when nobody knows which. `completed`: it did, for sure, which
// concerns fewer of those that depend on it.
void publish_finished_at_commit(int64 job, bool completed = false);
void publish_finished_anywhere_at_commit();

// For jobq.cpp. What would make others wrong goes first, then what would be stale; who is woken finds both, and the
// counters, right.
void publish_claimable();
void publish_deadlines();
void wake_for_published();
void wake_for_finished();  // jobs that depend on those, too
void keep_published();
void forget_published();
void forget_published_of_savepoint();

// A prepared transaction of this database has ended, and everybody can see it: nobody knows any more which jobs it was
// about. Raises no error.
void publish_prepared(PreparedEffects effects);

}  // namespace jobq
