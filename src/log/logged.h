// The transaction log (log/transaction_log.h) as its readers see it, and the functions that manage its lifetime. The
// readers are modules that notify other sessions at the end of the transaction. Code that writes to the log does not
// include this file.
#pragma once

#include "compat/pg.h"
#include "compat/queue_name.h"
#include "core/counts.h"
#include "core/folded.h"
#include "core/limit.h"
#include "core/series.h"
#include "log/transaction_log.h"

namespace jobq {

// The changes that the transaction makes to a queue's counters, at one level of subtransactions.
struct QueueChange {
    QueueName queue;
    uint32 hash;  // hash_of_queue()
    int level;
    core::Counts counts;
};

// A queue about which the transaction has something to publish: jobs that become claimable, claimed jobs, changed
// settings, or slots that were taken or freed. Also a queue in LoggedMember.
struct LoggedQueue {
    QueueName name;
    bool changed;     // false if the queue only shares a limit of which the transaction has taken or freed a slot
    bool notify;      // a NOTIFY must name the queue
    bool settings;    // the settings have changed
    int undescribed;  // number of lanes with newly claimable jobs whose traits were not logged, so all sleepers of the
                      // queue must check for jobs
    int64 claimed;    // maximum number of jobs claimed
    SubTransactionId claimed_in;  // the last subtransaction that claimed jobs
};
// Returns whether all sleeping workers of the queue must be woken to check for jobs.
inline bool sleepers_look(const LoggedQueue &queue) { return queue.settings || queue.undescribed > 0; }
using QueueIndex = int16;
constexpr QueueIndex kNoQueue = -1;

// Jobs of one lane and priority that become claimable. The claim keys of all these jobs are between `first` and `last`.
struct LoggedReady {
    int64 lane;
    core::ClaimKey first, last;
    int64 count;
    QueueIndex queue;  // kNoQueue: there were too many queues
    int16 traits;      // index of the lane's traits; kNoTraits: all sleepers of the queue must check for jobs
};
constexpr int16 kNoTraits = -1;

// A slot that was taken, freed, or both.
struct LoggedSlot {
    int64 slot;
    int64 seq;
    uint64 ticket;  // ticket for raise_slot_bounds() (limits/limit_state.h); 0: none
    int32 key_begin;
    uint8 key_bytes;  // 0: a slot of the whole queue
    QueueIndex queue;
    bool taken;
    bool freed;
    bool tried;    // freed, and take_own_free_slot() has returned it
    bool unheard;  // freed, but next_key_freed_here() has not yet returned its key
};
static_assert(core::kMaxConcurrencyKeyBytes <= 255, "the length of a key fits");

// A queue that shares a limit of which the transaction has taken or freed a slot.
struct LoggedMember {
    int64 limit;
    QueueIndex queue;
};

struct EndedHead {
    int64 group, job;
};

// The range of the keys of all rows that the transaction has added to a database-wide key space (core/key_space.h).
struct LoggedKeys {
    bool any;
    core::ClaimKey first, last;
};

// What the transaction must report to the background worker.
struct LoggedRound {
    bool any;        // false: the other members are meaningless
    bool extension;  // jobq.announce() was called
    TimestampTz due;
    TimestampTz lease_deadline;  // earliest deadline of the jobs that were added to the rescue's index
    Horizon horizon;             // result of a scan of all jobs in the rescue's index
    uint64 horizon_version;      // 0: there was no such scan
    SubTransactionId looked_in;
};

constexpr int kMaxLoggedTraits = 256;
constexpr int kMaxLoggedFinished = 4096;
constexpr int kMaxLoggedUnblocked = 4096;
constexpr int kRecentlyUnblocked = 256;
constexpr int kMaxEndedHeads = 1024;
constexpr int kMaxLoggedKeyBytes = 30000;

// The log of a transaction. A member named ..._unknown is set if there was no room for entries or if the changed jobs
// could not be identified. Readers must then assume that any change of this type might have happened.
struct TransactionLog {
    // The list `changes` is used as a stack. Only the innermost subtransaction adds and removes entries, so the levels
    // never decrease from one entry to the next.
    core::Folded<QueueChange, 1024, 256> changes;
    core::SeriesLog series;

    core::Folded<LoggedQueue, 256, 64> queues;
    core::Folded<LoggedReady, 1024, 512> ready;
    int traits_count;
    core::LaneTraits traits[kMaxLoggedTraits];
    bool counts_unknown;  // some of `changes` are missing
    bool ready_unknown;
    bool claimed_before;  // some of the jobs that become claimable might have been claimed earlier
    bool queues_unknown;
    bool claims;            // the transaction has claimed jobs
    bool claims_unknown;    // some of the claimed jobs belong to queues that are not in `queues`
    bool finished_unknown;  // some of the finished jobs below are missing

    // Jobs that have ended.
    int finished_count;
    int64 finished[kMaxLoggedFinished];
    bool completed[kMaxLoggedFinished];

    int unblocked_count;
    Unblocked unblocked[kMaxLoggedUnblocked];
    uint16 recently_unblocked[kRecentlyUnblocked];  // index of the last entry in `unblocked` for a key, by the low bits
                                                    // of the key
    Blockers unblocked_unknown;
    bool unblocking;  // see unblocking_until_commit()
    bool heads_left;  // see leave_next_heads()
    uint16 ended_heads_count;
    EndedHead ended_heads[kMaxEndedHeads];

    core::Folded<LoggedSlot, 1024, 256> slots;
    int key_bytes;
    char keys[kMaxLoggedKeyBytes];
    int unheard_keys;
    bool slots_taken_unknown, slots_freed_unknown;
    core::Folded<LoggedMember, 256, 64> members;

    LoggedKeys places[core::kKeySpaces];
    LoggedRound round;
    bool databases;  // pg_database has changed

    // The last subtransaction that has changed the directory of lanes, or InvalidSubTransactionId if there is none.
    SubTransactionId lanes_in;
    bool news_sent;  // the message about all changed lanes has already been sent, so later changes need their own
                     // message

    std::string_view key_of(const LoggedSlot &slot) const { return {keys + slot.key_begin, slot.key_bytes}; }
};
// Maximum size of the log. Each job status accounts for 8 kB of this size.
constexpr Size kLargestLog = 737280;
static_assert(sizeof(TransactionLog) <= kLargestLog, "what a transaction of any size costs");

const TransactionLog &transaction_log();

// Marks the message about the transaction's lanes as sent. Returns false if no message is needed. Called by
// lanes/lanes.cpp, which sends the message at the end of the transaction.
bool begin_sending_news();

// Removes the entry that says that the group's active job (its head) has ended, because the transaction has already
// made the next job of the group active. Called by groups/successors.cpp.
void unlog_free_group(int64 group);

// These functions manage the lifetime of the log. They are called by main/jobq.cpp.
void hand_log_to_parent();
void roll_back_log();  // discards the counts of the current subtransaction
void clear_log();

}  // namespace jobq
