// What a session knows of the lanes of each queue it has asked for, and the memory that takes. What the directory has
// and when it must be read is lanes.cpp's, which alone may call this.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "compat/queue_name.h"

namespace jobq {

struct KnownLanes;

// Tables of all queues, since most have few lanes. A key has no padding.
struct KnownKey {
    const KnownLanes *known;
    int64 number;
};

struct KnownLane {
    KnownKey key;  // its id
    bool leaving;  // the directory has only rows of it that are to be deleted: a producer enters it anew
    int32 version;
    std::string_view kind;
    std::string_view *required;  // canonical set
    int required_count;
    KnownLane *next_of_kind;
};

struct KnownKind {
    KnownKey key;  // hash of its name
    bool complete;
    KnownLane *first;
    KnownKind *next;  // of the queue
};

// Which transactions a look at the directory has seen the end of: all below xmax, but for those in `open`.
struct Seen {
    bool valid;  // not on a standby, whose snapshots say it otherwise
    FullTransactionId xmax;
    FullTransactionId *open;
    int open_count;
    int open_room;
};

struct KnownLanes {
    QueueName queue;        // hash key
    MemoryContext context;  // owns what follows; nullptr: nothing is known
    uint64 all_read;        // valid while it equals changes_of_all
    uint64 new_read;        // up to date while it equals changes
    Seen seen;
    FullTransactionId deleted;  // the last deletion of lanes that has been heard of
    bool whole;                 // all lanes of the queue
    int64 lane_count, leaving;  // how many lanes, and of them
    KnownKind *kinds;           // those that have been met
    int64 *ids;                 // when whole; the first `in_order` of them sorted
    int id_count, id_room, in_order;
};

// The queue's; `context` is nullptr when it is new. It stays where it is until forget_all_lanes().
KnownLanes *entry_of(std::string_view queue);
// Nothing is known so far.
void begin_to_know(KnownLanes *known);
// Whether more is known than a session shall remember, what is in use aside.
bool knows_too_much(const KnownLanes &used);
// Gives all memory back: nothing is known of any queue.
void forget_all_lanes();

// Made when it is not met yet.
KnownKind *kind_of(KnownLanes *known, std::string_view name);
// nullptr: not known.
KnownLane *lane_of(const KnownLanes *known, int64 id);
// A lane that the directory has, in a row that is to stay or in one that is leaving. `required` is a canonical set.
void add_lane(KnownLanes *known, int64 id, std::string_view kind, int32 version, const Names &required, bool leaving);
// Whether a lane belongs to what has been asked for.
bool is_met(const KnownLanes &known, int64 id, std::string_view kind);
// All lanes are known now: their ids are listed.
void list_all(KnownLanes *known);
// How many are known.
int64 lanes_in(const KnownLanes &known);

}  // namespace jobq
