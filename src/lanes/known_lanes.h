// The data structure of a session's cache of lanes, which has one entry per queue. lanes.cpp decides what the cache
// contains and when the session must read jobq.lane_directory; only lanes.cpp may call these functions.
#pragma once

#include "compat/args.h"
#include "compat/pg.h"
#include "compat/queue_name.h"

namespace jobq {

struct KnownLanes;

// Hash key of a lane or kind. The lanes of all queues share one hash table, because most queues have few lanes. The
// struct must not have padding.
struct KnownKey {
    const KnownLanes *known;
    int64 number;
};

struct KnownLane {
    KnownKey key;  // the id of the lane
    bool leaving;  // all rows of the lane are marked for deletion, so a producer must insert the lane again
    int32 version;
    std::string_view kind;
    std::string_view *required;  // canonical set
    int required_count;
    KnownLane *next_of_kind;
};

struct KnownKind {
    KnownKey key;  // hash of the name
    bool complete;
    KnownLane *first;
    KnownKind *next;  // next kind of the queue
};

// The transactions that had ended when the session read jobq.lane_directory: all transaction IDs below xmax except the
// IDs in `open`.
struct Seen {
    bool valid;  // false on a standby, because its snapshots list transactions differently
    FullTransactionId xmax;
    FullTransactionId *open;
    int open_count;
    int open_room;
};

struct KnownLanes {
    QueueName queue;        // hash key
    MemoryContext context;  // owns the following fields; nullptr if nothing is known
    uint64 all_read;        // the cache is valid while this equals changes_of_all
    uint64 new_read;        // the cache is up to date while this equals changes
    Seen seen;
    FullTransactionId deleted;  // the last transaction known to have deleted lanes
    bool whole;                 // all lanes of the queue are known
    int64 lane_count, leaving;  // number of lanes, and how many of them are leaving
    KnownKind *kinds;           // the kinds that were passed to kind_of()
    int64 *ids;                 // the ids of all lanes if `whole`; the first `in_order` ids are sorted
    int id_count, id_room, in_order;
};

// Returns the entry of the queue. If the entry is new, its `context` is nullptr. The address stays valid until
// forget_all_lanes() is called.
KnownLanes *entry_of(std::string_view queue);
// Empties the entry so that the caller can fill it.
void begin_to_know(KnownLanes *known);
// Returns whether the cache contains too many queues or too many lanes. The lanes of the queue `used` are not counted.
bool knows_too_much(const KnownLanes &used);
// Empties the cache and frees all its memory.
void forget_all_lanes();

// Returns the entry of the kind, and creates the entry if it does not exist.
KnownKind *kind_of(KnownLanes *known, std::string_view name);
// Returns the lane with this id, or nullptr if the lane is not in the cache.
KnownLane *lane_of(const KnownLanes *known, int64 id);
// Adds a lane that was read from jobq.lane_directory. `leaving` says whether the lane's row is marked for deletion.
// `required` must be a canonical set.
void add_lane(KnownLanes *known, int64 id, std::string_view kind, int32 version, const Names &required, bool leaving);
// Returns whether the lane belongs in the cache because the session has already read this lane, all lanes of its queue,
// or all lanes of its kind.
bool is_met(const KnownLanes &known, int64 id, std::string_view kind);
// Fills `ids` with the ids of all lanes of the queue. Must be called only after all of these lanes have been added to
// the cache.
void list_all(KnownLanes *known);
// Returns the number of known lanes in the queue.
int64 lanes_in(const KnownLanes &known);

}  // namespace jobq
