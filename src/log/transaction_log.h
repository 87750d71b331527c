// The transaction log, in the memory of the session: records everything about which other sessions must be notified
// when the transaction commits, or in some cases when it rolls back. Code that changes something records the change
// here, which costs little. main/jobq.cpp defines which modules read the log, when, and in which order. These modules
// use log/logged.h; the code that writes to the log does not depend on them.
//
// Repeated changes are folded into one entry, and there is room for a fixed number of entries, so a transaction of any
// size uses the same memory: about 0.7 MB, which is static. Changes for which there is no room are reported less
// precisely, as the last column shows.
//
// | what                              | folded by                     | room    | if there is no room             |
// |-----------------------------------|-------------------------------|---------|---------------------------------|
// | numbers of jobs                   | queue, level of savepoints    | 1,024   | unknown: the table is counted   |
// | totals                            | queue, kind, level            | 128     | in a series without a name      |
// | jobs that become claimable        | lane, priority: first to last | 1,024   | any job of any lane             |
// |   described, to wake the right    | the same                      | 256     | all sleepers of the queue check |
// |   number of sleepers              |                               |         |                                 |
// | queues with such jobs or settings | name                          | 256     | all sleepers check              |
// |   and queues with claimed jobs    | name                          | 256     | the same, after a rollback      |
// | jobs that have ended              |                               | 4,096   | any job                         |
// | groups, edges                     | key, mostly                   | 4,096   | any of this type                |
// |   groups whose head has ended     |                               | 1,024   | only reported, as above         |
// | slots, taken or freed             | slot and key                  | 1,024   | any slot                        |
// |   the names of their keys         | the same                      | 30 kB   | any slot                        |
// | times at which something is due   | the earliest                  |         |                                 |
// | keys of due and running jobs, ... | key space: first to last      |         |                                 |
// | lanes, claims, settings and so on | whether there are any         |         |                                 |
//
// The numbers of jobs and the totals are exact: if a savepoint is rolled back, its changes are removed. The groups
// whose head (active job) has ended are exact, too, because these entries are not used after a savepoint was rolled
// back. All other entries are hints, which may include changes of a rolled-back savepoint, so every reader must check
// the table.
//
// Without preload and in single-user mode, the log is only used for the session's own caches of lanes.
#pragma once

#include "compat/pg.h"
#include "core/claim_key.h"
#include "core/counts.h"
#include "core/key_space.h"
#include "core/metrics.h"
#include "core/wake.h"
#include "shmem/horizon.h"

#include <string_view>

namespace jobq {

// ---- Numbers of jobs. Every statement that inserts or deletes jobs, or changes their status or queue, calls these.

// Records that `count` jobs of the queue changed from status `from` to status `to`.
void count_at_commit(std::string_view queue, core::JobStatus from, core::JobStatus to, int64 count);
// Record inserted and deleted jobs.
void count_inserts_at_commit(std::string_view queue, core::JobStatus status, int64 count);
void count_deletes_at_commit(std::string_view queue, core::JobStatus status, int64 count);
// Records one job that moved to another queue, possibly with another status.
void count_move_at_commit(std::string_view from_queue, core::JobStatus from, std::string_view to_queue,
                          core::JobStatus to);
// Records attempts that failed or were lost. The change of the job's status is counted separately.
void count_event_at_commit(std::string_view queue, core::CountedEvent event, int64 count);
// Records what happened to a job of this queue and kind, for its totals (metrics/totals.h).
void tally_at_commit(std::string_view queue, std::string_view kind, const core::Happened &happened);
// Records that the queue was dropped, so that its totals are removed. An empty name removes the totals of all queues;
// this happens when the extension is created.
void log_queue_dropped(std::string_view queue);
// Records a change that cannot be counted. The counters of the database become unknown until the background worker has
// counted the table.
void recount_at_commit();

// ---- Jobs that become claimable.

// Records a claimable job of this queue and lane. Only for publish_ready() (lanes/lanes.h), which must be called for
// each job that becomes pending. `is_new` means that no worker can have claimed the job before. Returns true if the
// caller must call describe_ready_lane() once, so that only suitable sleeping workers are woken; if the lane is not
// described, all sleepers of the queue are woken to check.
bool log_ready(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new);
void describe_ready_lane(int64 lane, const core::LaneTraits &traits);
// Records that the settings of a queue have changed or, if the name is empty, the settings of any queue. The sleeping
// workers of the queue must then check for jobs, because the queue may have been resumed.
void log_settings(std::string_view queue);
// Records that at most `jobs` jobs of the queue were claimed. If the transaction or its savepoint rolls back, these
// jobs are claimable again.
void log_claim(std::string_view queue, int jobs);
// Records a change of the directory of lanes. Returns true if the message about all changed lanes has already been
// sent, so that this change needs its own message.
bool log_lanes();

// ---- Jobs that end.

// Record that a job finishes or is deleted, so that the sessions and jobs that wait for it are woken. Every statement
// that ends jobs must record each of these jobs, or call log_finished_anywhere() if their ids are unknown. `completed`
// means that the job has certainly completed, which affects fewer of its dependents than a failure.
void log_finished(int64 job, bool completed = false);
void log_finished_anywhere();

// ---- Jobs that are no longer blocked.

enum class Blocker : uint8 { Group, Edge, Event };
// Number of different searches for unblocked jobs. The search for Edge also finds jobs that await events.
constexpr int kSearched = 2;
using Blockers = uint32;  // one bit per search
constexpr Blockers bit_of(Blocker blocker) { return blocker == Blocker::Group ? 1U : 2U; }
constexpr Blockers kAllBlockers = (1U << kSearched) - 1;

// An event that may have unblocked jobs.
struct Unblocked {
    // Group: the number of the group. Edge: the id of the job that may have ended, or the negative id of the job whose
    // dependencies (edges) must be checked. Event: the hash of the event (core::event_hash).
    int64 key;
    // Group: the lowest id of the jobs that have started to wait for their turn in the group, or kNoJob if there is
    // none. Edge and Event: the lowest id of the jobs that await the job or event and must be checked, or kNoJob if
    // there is none.
    int64 job;
    Blocker blocker;
};
constexpr int64 kNoJob = PG_INT64_MAX;
constexpr int64 kFromTheFirst = 0;

void log_unblocked(Blocker blocker, int64 key, int64 job = kNoJob);
// Records that any job that waits for this type of blocker may be unblocked, because the keys are unknown.
void log_unblocked_anywhere(Blocker blocker);
// Records that a job has started to wait for its turn in the group.
inline void publish_group_waits(int64 group, int64 job) { log_unblocked(Blocker::Group, group, job); }
// Records that the head (active job) of the group has ended or no longer exists.
inline void publish_group_free(int64 group) { log_unblocked(Blocker::Group, group); }
// Records whether the transaction is currently unblocking jobs. If it aborts in the meantime, the state that the
// unblocking code keeps between calls is wrong and must be reset.
void unblocking_until_commit(bool going_on);

// Records that this transaction has certainly ended `job`, the head (active job) of the group, so that it may make the
// next job of the group active itself (groups/successors.h). The transaction makes no next job active after a savepoint
// was rolled back, because the rollback may have restored the head.
void log_head_ended(int64 group, int64 job);
// Records that this transaction must not make the next jobs of groups active when it commits: either it is a duty of
// the background worker, or it has made a job active in another way (by jobq_tick(), the restore of a dump, or a change
// with plain SQL).
void leave_next_heads();

// ---- Slots of limits.

// Record that a slot of a limit was taken or freed. At the commit, the sessions that wait for a freed slot are
// notified. An empty `key` means a slot of the whole queue. `ticket` identifies the claim that took the slot. `seq` is
// written into the row of the job. publish_slot_taken() returns false if there is no room in the log.
bool publish_slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq, uint64 ticket);
void slot_freed_at_commit(std::string_view queue, std::string_view key, int64 slot);
// Records that slots of unknown limits were freed.
void slots_freed_at_commit();

// ---- Rows that a scan of a key space must find (core/key_space.h).

// Records that a row was added to a key space of the whole database with this key, or that its key has changed to this
// one.
void log_key(core::KeySpace space, const core::ClaimKey &key);

// ---- The background worker.

// Records that something is due at `when`: a lease expires, or a job becomes due.
void log_due(TimestampTz when);
// Record that a job becomes claimable at `run_at`, or that a schedule is due at `when`.
void log_due_job(TimestampTz run_at, int64 id);
void log_due_schedule(TimestampTz when);
// Does the same as log_due() for a running job in the rescue's index: at `when` its lease expires or its cancellation
// is forced. DT_NOBEGIN means possibly immediately.
void log_lease_deadline(TimestampTz when);

// Records the result of a scan of all jobs in the rescue's index. `version` is the result of begin_horizon_scan()
// (leases/horizon.h).
void log_horizon(uint64 version, const Horizon &found);

// Records that the extension has been created or dropped. Like log_due(now), but the background worker also checks
// whether the extension exists.
void announce_extension_at_commit();
// Records that the launcher must read pg_database again.
void announce_databases_at_commit();

// ---- What the transaction itself needs to know about its changes. For the readers in other modules see log/logged.h.

// Returns whether the transaction has made jobs of this lane claimable that are not published yet.
bool has_unpublished_jobs(int64 lane);
// Returns whether the transaction has rows in this key space of the whole database that are not published yet.
bool has_unpublished_keys(core::KeySpace space);
// Returns the number of waiting jobs that the transaction has added to the queue so far.
int64 own_depth(std::string_view queue);
// Returns whether recount_at_commit() was called.
bool counts_unknown_here();

// Returns whether the transaction may have freed slots of any limit, because not all freed slots are in the log.
bool any_slot_freed_here();
// has_own_free_slot() returns whether the transaction may have freed a slot of the limit. Until the commit, such a slot
// is free only for this transaction. take_own_free_slot() returns each of these slots once, and then 0.
bool has_own_free_slot(int64 limit);
int64 take_own_free_slot(int64 limit);
// Returns the next key of which the transaction has freed a slot since the last call. Returns false if there is none.
bool next_key_freed_here(std::string_view *queue, std::string_view *key);

}  // namespace jobq
