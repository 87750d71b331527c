// The log of the transaction: all that it will tell others when it commits, and some of it when it does not. Whoever
// changes something says so here, in a few stores; who reads it, when and in which order, stands in main/jobq.cpp.
// They read it by job/logged.h, and nobody who writes knows them.
//
// It is folded while it is written, and has room for a fixed number of entries: a transaction of any size costs the
// same memory, some 0.7 megabytes and none of it allocated, and beyond that it is told less precisely.
//
// | what                              | folded by                     | room    | and beyond                      |
// |-----------------------------------|-------------------------------|---------|---------------------------------|
// | numbers of jobs                   | queue, level of savepoints    | 1,024   | unknown: the table is counted   |
// | totals                            | queue, kind, level            | 128     | of no queue and kind            |
// | jobs that become claimable        | lane, priority: first to last | 1,024   | any job of any lane             |
// |   described, to wake so many      | the same                      | 256     | all sleepers of the queue look  |
// | queues with such jobs or settings | name                          | 256     | all sleepers look               |
// |   and of which jobs are claimed   | name                          | 256     | the same, after a rollback      |
// | jobs that have ended              |                               | 4,096   | any job                         |
// | groups, edges                     | key, mostly                   | 4,096   | any of the kind                 |
// |   groups whose head has ended     |                               | 1,024   | only told of, as above          |
// | slots, taken or given back        | slot and key                  | 1,024   | any slot                        |
// |   the names of their keys         | the same                      | 30 kB   | any slot                        |
// | times at which something is due   | the earliest                  |         |                                 |
// | keys of due and running jobs, ... | key space: first to last      |         |                                 |
// | lanes, claims, settings and so on | whether there are any         |         |                                 |
//
// The numbers of jobs and the totals are exact: a rolled-back savepoint takes its changes along. Groups whose head has
// ended are, too: one that is rolled back makes them unknown. Of all else it may be told that a savepoint has done it
// which was rolled back: these are hints, and every reader looks at the table.
//
// Without preload, and in single-user mode, only the sessions' own caches of lanes learn of anything.
#pragma once

#include "compat/pg.h"
#include "lanes/claim_key_policy.h"
#include "lanes/key_space_policy.h"
#include "metrics/metrics_policy.h"
#include "shmem/horizon.h"
#include "stats/counts_policy.h"
#include "wait/wake_policy.h"

#include <string_view>

namespace jobq {

// ---- numbers of jobs. Every statement that inserts or deletes jobs, or changes their status or queue, says so.

// `count` jobs of the queue, now with status `to`, had status `from`.
void count_at_commit(std::string_view queue, core::JobStatus from, core::JobStatus to, int64 count);
// Jobs that were inserted or deleted.
void count_inserts_at_commit(std::string_view queue, core::JobStatus status, int64 count);
void count_deletes_at_commit(std::string_view queue, core::JobStatus status, int64 count);
// One job that was given another queue, and maybe another status.
void count_move_at_commit(std::string_view from_queue, core::JobStatus from, std::string_view to_queue,
                          core::JobStatus to);
// Attempts that failed or were lost; the jobs' change of status is counted apart.
void count_event_at_commit(std::string_view queue, core::CountedEvent event, int64 count);
// What happened to a job of that queue and kind: its totals (metrics/totals.h).
void tally_at_commit(std::string_view queue, std::string_view kind, const core::Happened &happened);
// The queue is dropped: so are its totals. Of an empty name: all of them, since the extension is new here.
void log_queue_dropped(std::string_view queue);
// Something that cannot be counted: the counters become unknown, and the worker counts the table.
void recount_at_commit();

// ---- jobs that become claimable

// A job of this queue and lane does. For tell_ready() (lanes/lanes.h), which every statement that makes a job pending
// calls for each of its jobs. `is_new`: nobody can have claimed it before. True: the lane is to be described, once, for
// those who sleep; otherwise they look for themselves.
bool log_ready(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new);
void describe_ready_lane(int64 lane, const core::LaneTraits &traits);
// The settings of a queue change, or of any queue when the name is empty: it may have been resumed.
void log_settings(std::string_view queue);
// At most this many jobs of the queue are claimed. If the transaction or a savepoint of it rolls back, they are
// claimable again.
void log_claim(std::string_view queue, int jobs);
// The directory of lanes gets other rows. True: the message about all of them has been sent, this needs one of its own.
bool log_lanes();

// ---- jobs that end

// A job finishes, or goes: whoever waits for it is woken, jobs too. Every statement that ends jobs must say so for each
// of its jobs, or for any when nobody knows which. `completed`: it did, for sure, which concerns fewer of those that
// depend on it.
void log_finished(int64 job, bool completed = false);
void log_finished_anywhere();

// ---- jobs that are no longer blocked

enum class Blocker : uint8 { Group, Edge, Event };
// Number of searches: the search for edges finds jobs that await events, too.
constexpr int kSearched = 2;
using Blockers = uint32;  // a bit for each search
constexpr Blockers bit_of(Blocker blocker) { return blocker == Blocker::Group ? 1U : 2U; }
constexpr Blockers kAllBlockers = (1U << kSearched) - 1;

// What may have set blocked jobs free.
struct Unblocked {
    int64 key;  // the group; the job that may have ended, or minus the job whose edges are to be looked at; the hash of
                // the event (core::event_hash)
    int64 job;  // groups: the lowest id among the jobs that wait for it from now on; kNoJob: none is new. Else: the
                // lowest id of the jobs that await it and are to be looked at; kNoJob: none is
    Blocker blocker;
};
constexpr int64 kNoJob = PG_INT64_MAX;
constexpr int64 kFromTheFirst = 0;

void log_unblocked(Blocker blocker, int64 key, int64 job = kNoJob);
// Nobody knows which ones.
void log_unblocked_anywhere(Blocker blocker);
// A job stands in the line of the group from now on.
inline void publish_group_waits(int64 group, int64 job) { log_unblocked(Blocker::Group, group, job); }
// The head of the group has ended, or is gone.
inline void publish_group_free(int64 group) { log_unblocked(Blocker::Group, group); }
// Blocked jobs are being set free, by the promoter, until it is done: what it remembers is wrong if it fails.
void unblocking_until_commit(bool going_on);

// This transaction has ended the head of the group, this job, which nobody else can have done: it may make the next one
// (groups/successors.h). Not where a savepoint has been rolled back, which may have brought the head back.
void log_head_ended(int64 group, int64 job);
// It makes none: it has made a head otherwise, of whatever group, as a tick does and who restores a dump or changes
// rows by hand, or is a duty of the worker.
void leave_next_heads();

// ---- slots of limits

// A slot is taken, or given back: whoever waits for one is told when it is free. `key` empty: it is one of the whole
// queue. `ticket`: of who takes it, `seq`: what is written into the row. False: there is no room.
bool publish_slot_taken(std::string_view queue, std::string_view key, int64 slot, int64 seq, uint64 ticket);
void slot_freed_at_commit(std::string_view queue, std::string_view key, int64 slot);
// The same for slots of any limits: nobody knows which.
void slots_freed_at_commit();

// ---- what a search of a key space must find (lanes/key_space_policy.h)

// A row has come to this place of a key space of the whole database, or has moved there.
void log_key(core::KeySpace space, const core::ClaimKey &key);

// ---- the background worker

// Something is due at `when` (a lease runs out, a job becomes due).
void log_due(TimestampTz when);
// A job becomes claimable at `run_at`; a schedule is due.
void log_due_job(TimestampTz run_at, int64 id);
void log_due_schedule(TimestampTz when);
// The same as log_due for a running job that is rescue-indexed: its lease runs out, or its cancellation is to be
// forced, at `when`; DT_NOBEGIN: perhaps at once.
void log_lease_deadline(TimestampTz when);

// `version`: of begin_horizon_scan() (leases/horizon.h).
void log_horizon(uint64 version, const Horizon &found);

// The extension has come or gone: like log_due(now), and the worker looks whether it is there.
void announce_extension_at_commit();
// The launcher is to look through pg_database again.
void announce_databases_at_commit();

// ---- what this transaction itself must know of it. The rest of its changes: job/logged.h

// Whether it has made jobs of this lane claimable, which nobody has been told of yet.
bool has_unpublished_jobs(int64 lane);
// Whether it has rows in this key space of the whole database that have not been published yet.
bool has_unpublished_keys(core::KeySpace space);
// By how many waiting jobs it has made a queue deeper so far.
int64 own_depth(std::string_view queue);
// Whether recount_at_commit() was called.
bool counts_unknown_here();

// Whether it has given back slots of nobody knows which limits.
bool any_slot_freed_here();
// Whether it may have given back a slot of the limit, which for others is not free yet; and hands one out, once. 0:
// none is known.
bool has_own_free_slot(int64 limit);
int64 take_own_free_slot(int64 limit);
// The next key of which it has given back a slot since this was last asked. False: there is none.
bool next_key_freed_here(std::string_view *queue, std::string_view *key);

}  // namespace jobq
