// The log of the transaction (job/transaction_log.h) as those see it who tell others of it, and its lifetime. Who
// writes to it does not include this.
#pragma once

#include "base/folded.h"
#include "compat/pg.h"
#include "compat/queue_name.h"
#include "job/transaction_log.h"
#include "limits/limit_policy.h"
#include "metrics/series_policy.h"
#include "stats/counts_policy.h"

namespace jobq {

// By how much the transaction changes a queue, at one level of nested transactions.
struct QueueChange {
    QueueName queue;
    uint32 hash;  // hash_of_queue()
    int level;
    core::Counts counts;
};

// A queue with jobs that become claimable, with other settings, or with slots that change hands.
struct LoggedQueue {
    QueueName name;
    bool notify;                  // NOTIFY tells of it
    bool settings;                // have changed
    int undescribed;              // lanes that become claimable, of which the sleepers do not know what they are
    int64 claimed;                // jobs, at most
    SubTransactionId claimed_in;  // the last that has claimed some
};
// Whether its sleepers look for themselves.
inline bool sleepers_look(const LoggedQueue &queue) { return queue.settings || queue.undescribed > 0; }
using QueueIndex = int16;
constexpr QueueIndex kNoQueue = -1;

// Jobs of one lane and priority that become claimable: all keys lie between first and last.
struct LoggedReady {
    int64 lane;
    core::ClaimKey first, last;
    int64 count;
    QueueIndex queue;  // kNoQueue: one of too many
    int16 traits;      // index; kNoTraits: the queue's sleepers look for themselves
};
constexpr int16 kNoTraits = -1;

// A slot that was taken, given back, or both.
struct LoggedSlot {
    int64 slot;
    int64 seq;
    uint64 ticket;  // to raise the bound, 0: no
    int32 key_begin;
    uint8 key_bytes;  // 0: of the whole queue
    QueueIndex queue;
    bool taken;
    bool freed;
    bool tried;    // given back, and handed out to a claim of this transaction
    bool unheard;  // given back, and no claim of this transaction has heard of its key yet
};
static_assert(core::kMaxConcurrencyKeyBytes <= 255, "the length of a key fits");

struct EndedHead {
    int64 group, job;
};

// Keys of rows that have come to a key space of the whole database. All of them lie between first and last.
struct LoggedKeys {
    bool any;
    core::ClaimKey first, last;
};

// What the background worker does next.
struct LoggedRound {
    bool any;        // else nothing else here means anything
    bool extension;  // jobq.announce() was called
    TimestampTz due;
    TimestampTz lease_deadline;  // of the jobs that are rescue-indexed from now on
    Horizon horizon;             // what a look at all rescue-indexed jobs has found
    uint64 horizon_version;      // 0: there was none
    SubTransactionId looked_in;
};

constexpr int kMaxLoggedTraits = 256;
constexpr int kMaxLoggedFinished = 4096;
constexpr int kMaxLoggedUnblocked = 4096;
constexpr int kRecentlyUnblocked = 256;
constexpr int kMaxEndedHeads = 1024;
constexpr int kMaxLoggedKeyBytes = 30000;

// What is unknown is more than there was room for, or something of which nobody knows what it was: it counts as all
// that there may be.
struct TransactionLog {
    // A stack: only the innermost subtransaction changes anything, and its levels never decrease.
    core::Folded<QueueChange, 1024, 256> changes;
    core::SeriesLog series;

    core::Folded<LoggedQueue, 256, 64> queues;
    core::Folded<LoggedReady, 1024, 512> ready;
    int traits_count;
    core::LaneTraits traits[kMaxLoggedTraits];
    bool counts_unknown;  // of `changes`
    bool ready_unknown;
    bool claimed_before;  // some of those that become claimable may have been
    bool queues_unknown;
    bool claims;            // it has claimed jobs
    bool claims_unknown;    // of queues that are not in `queues`
    bool finished_unknown;  // of the jobs below

    // Of jobs that have ended.
    int finished_count;
    int64 finished[kMaxLoggedFinished];
    bool completed[kMaxLoggedFinished];

    int unblocked_count;
    Unblocked unblocked[kMaxLoggedUnblocked];
    uint16 recently_unblocked[kRecentlyUnblocked];  // where a key was entered last, by its low bits
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

    LoggedKeys places[core::kKeySpaces];
    LoggedRound round;
    bool databases;  // pg_database changed

    SubTransactionId lanes_in;  // the last that has changed the directory of lanes; InvalidSubTransactionId: none has
    bool news_sent;             // the message about all of them: later ones need their own

    std::string_view key_of(const LoggedSlot &slot) const { return {keys + slot.key_begin, slot.key_bytes}; }
};
// 8 kB of it for each status.
constexpr Size kLargestLog = 737280;
static_assert(sizeof(TransactionLog) <= kLargestLog, "what a transaction of any size costs");

const TransactionLog &transaction_log();

// For lanes/lanes.cpp, at the end of the transaction: the message about its lanes is sent now. False: there is none.
bool begin_sending_news();

// For groups/successors.cpp: the group has its next head, so nobody needs to be told that the one before has ended.
void unlog_free_group(int64 group);

// For main/jobq.cpp: its lifetime.
void hand_log_to_parent();
void roll_back_log();  // what the current subtransaction has counted
void clear_log();

}  // namespace jobq
