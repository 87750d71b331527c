// The transaction log, in the memory of the session, records everything about which other sessions must be notified
// when the transaction commits, or in some cases when it rolls back. Code that changes something records the change
// here, which is cheap. main/jobq.cpp defines which modules read the log, when they read it, and in which order. These
// modules use log/logged.h; the code that writes to the log does not depend on them.
//
// Repeated changes are folded into one entry, and there is room for a fixed number of entries. So a transaction of any
// size uses the same memory: about 0.7 MB, which is allocated statically. Changes for which there is no room are
// reported less precisely, as the last column shows.
//
// | entries                             | folded by                    | room  | assumption if there is no room    |
// |-------------------------------------|------------------------------|-------|-----------------------------------|
// | numbers of jobs                     | queue, savepoint level       | 1,024 | unknown; the jobs are recounted   |
// | totals                              | queue, kind, savepoint level | 128   | belong to a series without a name |
// | jobs that become claimable          | lane, priority               | 1,024 | any job of any lane               |
// | traits of the lanes of these jobs   | lane, priority               | 256   | all sleepers of the queue check   |
// | queues with something to publish    | queue                        | 256   | all sleepers check                |
// | jobs that have ended                | not folded                   | 4,096 | any job                           |
// | groups, edges, and signals          | key, usually                 | 4,096 | any group, edge, or signal        |
// | groups whose head has ended         | not folded                   | 1,024 | the worker makes the next head    |
// | slots that were taken or freed      | slot, key                    | 1,024 | any slot                          |
// | names of the keys of these slots    | slot, key                    | 30 kB | any slot                          |
// | queues that share named limits      | limit, queue                 | 256   | any slot                          |
// | times at which something is due     | the earliest time is kept    | fixed | -                                 |
// | keys of due jobs, running jobs, ... | the range of keys is kept    | fixed | -                                 |
// | flags for lanes, claims, ...        | a flag is set                | fixed | -                                 |
//
// The numbers of jobs and the totals are exact as long as there is room: if a savepoint is rolled back, its changes are
// removed. The entries for groups whose head (active job) has ended are exact, too, because they are no longer used
// after a savepoint has been rolled back. All other entries are hints, which can include changes of a savepoint that
// was rolled back, so every reader must check the table.
//
// If the library is not preloaded, and in single-user mode, the log is used only for the caches of lanes in this
// session.
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

// ---- Job counts. Code that inserts or deletes jobs, or changes their status or queue, must call these functions.

// Records that `count` jobs of the queue changed from status `from` to status `to`.
void count_at_commit(std::string_view queue, core::JobStatus from, core::JobStatus to, int64 count);
// These functions record that `count` jobs with this status were inserted or deleted.
void count_inserts_at_commit(std::string_view queue, core::JobStatus status, int64 count);
void count_deletes_at_commit(std::string_view queue, core::JobStatus status, int64 count);
// Records one job that moved to another queue, possibly with another status.
void count_move_at_commit(std::string_view from_queue, core::JobStatus from, std::string_view to_queue,
                          core::JobStatus to);
// Records attempts that failed or were lost. The change of the job's status is counted separately.
void count_event_at_commit(std::string_view queue, core::CountedEvent event, int64 count);
// Records what happened to a job of this queue and kind, for the totals of the queue and kind (metrics/totals.h).
void tally_at_commit(std::string_view queue, std::string_view kind, const core::Happened &happened);
// Records that the queue was dropped, so that its totals are removed. An empty name removes the totals of all queues;
// this happens when the extension is created.
void log_queue_dropped(std::string_view queue);
// Records a change that cannot be counted. The counters of the database become unknown until the background worker has
// recounted the jobs.
void recount_at_commit();

// ---- Jobs that become claimable.

// Records a claimable job of this queue and lane. Called only by publish_ready() (lanes/lanes.h), which must be called
// for each job that becomes pending. `is_new` means that no worker can have claimed the job before. Returns true if the
// caller must call describe_ready_lane() once, so that only suitable sleeping workers are woken; if the lane is not
// described, all sleepers of the queue are woken to check.
bool log_ready(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new);
void describe_ready_lane(int64 lane, const core::LaneTraits &traits);
// Records that the settings of a queue have changed. An empty name means that the settings of any queue might have
// changed. The sleeping workers of the queue must then check for jobs, because the queue might have been resumed.
void log_settings(std::string_view queue);
// Records that at most `jobs` jobs of the queue were claimed. If the transaction or its savepoint is rolled back, these
// jobs are claimable again.
void log_claim(std::string_view queue, int jobs);
// Records a change to the directory of lanes. Returns true if this change needs its own message. This is the case if
// the message about all changed lanes has already been sent.
bool log_lanes();

// ---- Jobs that end.

// These functions record that a job finishes or is deleted, so that sessions that wait for the job are woken and jobs
// that depend on it are unblocked. Code that ends jobs must record each of them, or call log_finished_anywhere() if
// their ids are unknown. `completed` means that the job has certainly completed, which affects fewer of its dependents
// than a failure.
void log_finished(int64 job, bool completed = false);
void log_finished_anywhere();

// ---- Jobs that are no longer blocked.

enum class Blocker : uint8 { Group, Edge, Halt, Signal };
// Number of different searches for unblocked jobs. The search for Edge also finds jobs that await signals.
constexpr int kSearched = 3;
// Returns the index of the search that finds the jobs blocked by this kind of blocker.
constexpr int search_of(Blocker blocker) {
    return static_cast<int>(blocker == Blocker::Signal ? Blocker::Edge : blocker);
}
using Blockers = uint32;  // one bit per search
constexpr Blockers bit_of(Blocker blocker) { return 1U << search_of(blocker); }
constexpr Blockers kAllBlockers = (1U << kSearched) - 1;

// Something that has happened and might have unblocked jobs.
struct Unblocked {
    // The meaning depends on `blocker`. Group: the number of the group. Edge: the id of the job that might have ended,
    // or the negative id of the job whose dependencies (edges) must be checked. Halt: the id of the failed head of a
    // group. Signal: the id of the signal in jobq.signals.
    int64 key;
    // The meaning depends on `blocker`. Group: the lowest id of the jobs that have started to wait for their turn in
    // the group, or kNoJob if there is none. Edge and Signal: the lowest id of the jobs that await the job or signal
    // and must be checked, or kNoJob if there is none. Halt: kNoJob.
    int64 job;
    Blocker blocker;
};
constexpr int64 kNoJob = PG_INT64_MAX;
constexpr int64 kFromTheFirst = 0;

void log_unblocked(Blocker blocker, int64 key, int64 job = kNoJob);
// Records that any job that waits for this type of blocker might be unblocked. Used if the keys of the blockers are
// unknown.
void log_unblocked_anywhere(Blocker blocker);
// Records that a job has started to wait for its turn in the group.
inline void publish_group_waits(int64 group, int64 job) { log_unblocked(Blocker::Group, group, job); }
// Records that the head (active job) of the group has ended or no longer exists.
inline void publish_group_free(int64 group) { log_unblocked(Blocker::Group, group); }
// Records whether the transaction is currently unblocking jobs. If the transaction aborts during this time, the state
// that the unblocking code keeps between calls is wrong and must be reset.
void unblocking_until_commit(bool going_on);

// Records that this transaction has certainly ended `job`, the head (active job) of the group, so that the transaction
// itself can make the next job of the group active (groups/successors.h). The transaction does not do this after a
// savepoint has been rolled back, because the rollback might have restored the head.
void log_head_ended(int64 group, int64 job);
// Records that this transaction must not make the next jobs of groups active when it commits. This applies to a
// transaction that is a duty of the background worker, and to a transaction that has made a job active in another way
// (by jobq_tick(), the restore of a dump, or a change with plain SQL).
void leave_next_heads();

// ---- Slots of limits.

// These functions record that a slot of a limit was taken or freed. At the commit, the sessions that wait for a freed
// slot are notified. An empty `key` means a slot of the whole queue. `ticket` identifies the claim that took the slot.
// `seq` is written into the row of the job. publish_slot_taken() returns false if there is no room in the log.
bool publish_slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq, uint64 ticket);
void slot_freed_at_commit(std::string_view queue, std::string_view key, int64 slot);
// Records that slots of unknown limits were freed.
void slots_freed_at_commit();
// Records the queues that share a limit of which the transaction takes or frees a slot. When the slot becomes free, the
// sessions that wait for jobs in any of these queues are notified.
void log_members(int64 limit, const std::string_view *queues, int count);

// ---- Rows that a scan of a key space must find (core/key_space.h).

// Records that a row with this key was added to a database-wide key space, or that the key of a row has changed to this
// key.
void log_key(core::KeySpace space, const core::ClaimKey &key);

// ---- The background worker.

// Records that the background worker has work to do at `when`, because a lease expires or a job becomes due.
void log_due(TimestampTz when);
// These functions record that a job becomes claimable at `run_at`, or that a schedule is due at `when`.
void log_due_job(TimestampTz run_at, int64 id);
void log_due_schedule(TimestampTz when);
// Records that the lease of a running job in the rescue's index expires at `when`, or that its cancellation is forced
// at this time. DT_NOBEGIN means that either can happen immediately.
void log_lease_deadline(TimestampTz when);

// Records that a member of a batch has ended or was deleted, so that the duty "batches" checks soon whether the batch
// has ended.
void log_member_ended();

// Records the result of a scan of all jobs in the rescue's index. `version` is the result of begin_horizon_scan()
// (leases/horizon.h).
void log_horizon(uint64 version, const Horizon &found);

// Records that the extension has been created or dropped. Requests an immediate round, as log_due(now) does, and makes
// the background worker check whether the extension exists.
void announce_extension_at_commit();
// Records that the launcher must read pg_database again.
void announce_databases_at_commit();

// ---- What the transaction itself needs to know about its changes. log/logged.h is for readers in other modules.

// Returns whether the transaction has made jobs of this lane claimable and has not published them yet.
bool has_unpublished_jobs(int64 lane);
// Returns whether the transaction has added rows to this database-wide key space and has not published them yet.
bool has_unpublished_keys(core::KeySpace space);
// Returns the number of waiting jobs that the transaction has added to the queue so far.
int64 own_depth(std::string_view queue);
// Returns whether recount_at_commit() was called.
bool counts_unknown_here();

// Returns true if the log does not contain all slots that the transaction has freed. The transaction might then have
// freed a slot of any limit.
bool any_slot_freed_here();
// has_own_free_slot() returns whether the transaction might have freed a slot of the limit. Until the commit, such a
// slot is free only for this transaction. take_own_free_slot() returns each of these slots once, and then 0.
bool has_own_free_slot(int64 limit);
int64 take_own_free_slot(int64 limit);
// Returns the next key for which the transaction has freed a slot since the last call. Returns false if there is none.
bool next_key_freed_here(std::string_view *queue, std::string_view *key);

}  // namespace jobq
