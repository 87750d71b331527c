// See lanes.h.
//
// The cache is filled under new snapshots, not under the snapshot of the transaction (see queues/directory.cpp). Lanes
// that the current transaction inserts are added to the cache immediately. After a rollback, including a rollback to a
// savepoint, the session reads everything again.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/queue_name.h"
#include "compat/readers_lock.h"
#include "compat/relation_changes.h"
#include "compat/spi.h"
#include "core/wake.h"
#include "core/wide_xid.h"
#include "lanes/known_lanes.h"
#include "lanes/lanes.h"
#include "log/logged.h"
#include "queues/known_queues.h"
#include "row/limit_names.h"
#include "row/numbers.h"
#include "row/owner.h"

#include <algorithm>

namespace jobq {

namespace {

// Maximum number of new lane ids that are inserted into the sorted array one by one. If there are more new ids, the
// whole array is sorted.
constexpr int kFewNew = 64;

// The cache entry for which the session is reading jobq.lane_directory. Code that runs during the read must not free
// it.
const KnownLanes *being_read = nullptr;
uint64 changes_of_all = 1;
uint64 changes = 1;
uint64 own_lanes = 0;  // number of lanes that this session has inserted
Oid directory = InvalidOid;
// OID of the view jobq.lanes. An invalidation message for the view means that jobq.lane_directory has new rows.
// Messages for the view are cheap: they invalidate no plans of statements on a hot path, because no such statement
// reads the view. The OID is looked up again after each message, because the message may also mean that the view was
// dropped.
Oid news = InvalidOid;

// The last lane that was found in jobq.lane_directory, and the ID of the transaction that found it.
struct {
    FullTransactionId xid;
    int64 lane;
} settled;

#define LANE_COLUMNS "SELECT d.lane, d.kind, d.version, d.requires, d.retiring FROM jobq.lane_directory d "

Statement read_all = {LANE_COLUMNS "WHERE d.queue = $1", {TEXTOID}};
Statement read_kind = {LANE_COLUMNS "WHERE d.queue = $1 AND d.kind = $2", {TEXTOID, TEXTOID}};
// Selects the lanes that were changed since the last read. Excludes rows with transaction IDs that are not assigned
// yet. Such rows come from a dump of another cluster, and this statement need not select them, because every session
// reads all lanes again after a restore.
Statement read_new = {LANE_COLUMNS
                      "WHERE d.queue = $1 AND d.changed_xid >= $2 AND d.changed_xid < $3 "
                      "AND d.changed_xid <> $4",
                      {TEXTOID, XID8OID, XID8OID, XID8OID}};
Statement read_late = {LANE_COLUMNS "WHERE d.queue = $1 AND d.changed_xid = $2", {TEXTOID, XID8OID}};
Statement read_deleted = {"SELECT r.deleted_xid FROM jobq.lane_retirement r WHERE r.deleted_xid IS NOT NULL", {}};
Statement insert_lane = {
    "INSERT INTO jobq.lane_directory (lane, queue, kind, version, requires, limits) "
    "VALUES (jobq.lane_of($1, $2, $3, $4, $5), $1, $2, $3, $4, $5)",
    {TEXTOID, TEXTOID, INT4OID, TEXTARRAYOID, TEXTARRAYOID}};
Statement read_job = {"SELECT j.queue, j.kind, j.version, j.requires, j.limits FROM jobq.jobs j WHERE j.id = $1",
                      {INT8OID}};

void on_relcache_invalidation(Oid relation) {
    if (relation == InvalidOid || relation == directory) changes_of_all++;
    // While the OID of the view is unknown, any invalidation message might be about the view.
    if (relation != news && OidIsValid(news)) return;
    changes++;
    news = InvalidOid;
}

// Looks up the OIDs of the table and the view. The OIDs are invalid if the extension was dropped.
void find_relations() {
    const Oid schema = get_namespace_oid("jobq", true);
    directory = get_relname_relid("lane_directory", schema);
    news = get_relname_relid("lanes", schema);
}

void send_news() {
    if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(news))) find_relations();
    // If the view does not exist, sends a message for the table, which makes every session read all lanes again.
    const Oid subject = OidIsValid(news) ? news : directory;
    if (OidIsValid(subject)) CacheInvalidateRelcacheByRelid(subject);
}

// Adds to the cache the lanes in these rows, which were selected with LANE_COLUMNS. Marks a lane in the cache as
// leaving only if all rows of the lane are marked as retiring. If `met` is true, adds only lanes that the cache must
// contain (is_met()).
void add_rows(KnownLanes *known, const Rows &rows, bool met) {
    for (const bool leaving : {true, false}) {
        for (uint64 i = 0; i < rows.size(); i++) {
            const Row row = rows[i];
            if (row.bool_at(5) != leaving) continue;
            if (met && !is_met(*known, row.int64_at(1), row.text_at(2))) continue;
            add_lane(known, row.int64_at(1), row.text_at(2), row.int32_at(3),
                     canonical_requires(row.is_null(4) ? nullptr : DatumGetArrayTypeP(row.get(4))), leaving);
        }
    }
}

FullTransactionId widened(TransactionId xid, FullTransactionId next) {
    return FullTransactionIdFromU64(core::widen_xid(xid, U64FromFullTransactionId(next)));
}

void remember_seen(KnownLanes *known, Snapshot snapshot) {
    Seen *seen = &known->seen;
    const FullTransactionId next = ReadNextFullTransactionId();
    const FullTransactionId own = GetTopFullTransactionIdIfAny();
    const int count = static_cast<int>(snapshot->xcnt) + 1;
    seen->valid = false;
    if (snapshot->takenDuringRecovery) return;
    if (seen->open == nullptr || seen->open_room < count) {
        const Size size = sizeof(FullTransactionId) * count;
        seen->open = static_cast<FullTransactionId *>(seen->open == nullptr ? MemoryContextAlloc(known->context, size)
                                                                            : repalloc(seen->open, size));
        seen->open_room = count;
    }
    seen->xmax = widened(snapshot->xmax, next);
    seen->open_count = 0;
    for (uint32 i = 0; i < snapshot->xcnt; i++) seen->open[seen->open_count++] = widened(snapshot->xip[i], next);
    if (FullTransactionIdIsValid(own) && FullTransactionIdPrecedes(own, seen->xmax))
        seen->open[seen->open_count++] = own;
    seen->valid = true;
}

// Returns whether all lanes must be read again because deleted rows might still be in the cache, or because so many
// lanes were deleted that reading all lanes is cheaper.
bool missed_deletions(KnownLanes *known, Snapshot snapshot) {
    const Seen &seen = known->seen;
    const Rows rows = read(read_deleted, Params(), snapshot);
    if (rows.size() == 0) return false;
    const FullTransactionId deleted = DatumGetFullTransactionId(rows[0].get(1));
    if (!FullTransactionIdPrecedes(deleted, seen.xmax)) return true;
    const bool first_heard = !FullTransactionIdEquals(deleted, known->deleted);
    known->deleted = deleted;
    if (first_heard && known->leaving > kFewNew && known->leaving > lanes_in(*known) / 2) return true;
    return std::any_of(seen.open, seen.open + seen.open_count,
                       [&](FullTransactionId open) { return !FullTransactionIdPrecedes(deleted, open); });
}

// Reads the lanes that were changed since the last read. Returns false if all lanes must be read again.
bool read_what_is_new(KnownLanes *known, Datum queue, Snapshot snapshot) {
    const Seen &seen = known->seen;
    if (!seen.valid || snapshot->takenDuringRecovery || missed_deletions(known, snapshot)) return false;
    const FullTransactionId own = GetTopFullTransactionIdIfAny();
    const FullTransactionId next = ReadNextFullTransactionId();
    for (int i = 0; i < seen.open_count; i++) {
        if (FullTransactionIdEquals(seen.open[i], own)) continue;
        add_rows(known, read(read_late, Params().add(queue).add(FullTransactionIdGetDatum(seen.open[i])), snapshot),
                 true);
    }
    add_rows(known,
             read(read_new,
                  Params()
                      .add(queue)
                      .add(FullTransactionIdGetDatum(seen.xmax))
                      .add(FullTransactionIdGetDatum(next))
                      .add(FullTransactionIdGetDatum(own)),
                  snapshot),
             true);
    remember_seen(known, snapshot);
    return true;
}

// Calls body(queue, snapshot) with a new snapshot. body() runs with the privileges of the owner, because the current
// user might have no privileges on jobq.lane_directory.
template <typename Body>
pg_noinline void read_directory(const KnownLanes &known, Body body) {
    const KnownLanes *outer = being_read;
    PG_TRY();
    {
        being_read = &known;
        with_owner_spi([&] {
            Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
            body(PointerGetDatum(make_text(queue_view(known.queue))), snapshot);
            UnregisterSnapshot(snapshot);
        });
    }
    PG_FINALLY();
    { being_read = outer; }
    PG_END_TRY();
}

// Processes pending invalidation messages, and returns the cache entry of the queue.
KnownLanes *heard_of(std::string_view queue) {
    on_relation_change<on_relcache_invalidation>();
    // Without this call, the session would receive messages only when it takes a new lock, so a long transaction would
    // never notice a lane that was added for a new kind.
    AcceptInvalidationMessages();
    KnownLanes *known = entry_of(queue);
    // The cache cannot be emptied while an entry is being filled.
    if (being_read == nullptr && knows_too_much(*known)) {
        forget_all_lanes();
        known = entry_of(queue);
    }
    return known;
}

bool is_up_to_date(const KnownLanes &known) {
    return known.context != nullptr && known.all_read == changes_of_all && known.new_read == changes;
}

// Returns the cache entry of the queue after bringing it up to date.
KnownLanes *known_of(std::string_view queue) {
    KnownLanes *known = heard_of(queue);
    // Reads changes_of_all and changes first, so that an invalidation message that arrives during the following read
    // makes the entry stale again.
    const uint64 all = changes_of_all, latest = changes;
    if (!OidIsValid(news) || known->all_read != all) find_relations();
    if (is_up_to_date(*known)) return known;
    bool current = false;
    if (known->context != nullptr && known->all_read == all)
        read_directory(*known,
                       [&](Datum name, Snapshot snapshot) { current = read_what_is_new(known, name, snapshot); });
    if (!current) begin_to_know(known);
    known->all_read = all;
    known->new_read = latest;
    return known;
}

void complete_kind(KnownLanes *known, std::string_view kind) {
    if (known->whole || kind_of(known, kind)->complete) return;
    read_directory(*known, [&](Datum queue, Snapshot snapshot) {
        add_rows(known, read(read_kind, Params().add(queue).add(PointerGetDatum(make_text(kind))), snapshot), false);
        // If other kinds were read earlier, `seen` must still describe the snapshot of that earlier read. The next read
        // may then read new rows of this kind again, which is harmless.
        if (known->seen.open == nullptr) remember_seen(known, snapshot);
        kind_of(known, kind)->complete = true;
    });
}

void complete_queue(KnownLanes *known) {
    if (known->whole) return;
    read_directory(*known, [&](Datum queue, Snapshot snapshot) {
        add_rows(known, read(read_all, Params().add(queue), snapshot), false);
        if (known->seen.open == nullptr) remember_seen(known, snapshot);
        list_all(known);
    });
}

void put_ids_in_order(KnownLanes *known) {
    complete_queue(known);
    if (known->id_count - known->in_order > kFewNew) {
        std::sort(known->ids, known->ids + known->id_count);
        known->in_order = known->id_count;
    }
    for (; known->in_order < known->id_count; known->in_order++) {
        const int64 id = known->ids[known->in_order];
        int64 *place = std::upper_bound(known->ids, known->ids + known->in_order, id);
        memmove(place + 1, place, sizeof(int64) * (known->ids + known->in_order - place));
        *place = id;
    }
}

bool matches(const core::WorkerFilter &filter, const KnownLane &lane) {
    return core::lane_matches(filter, lane.kind, lane.version, lane.required, lane.required_count);
}

LaneIds no_lanes(int room) { return {allocate_array<int64>(room), 0, false}; }

LaneIds copy_of_all(const KnownLanes &known) {
    LaneIds ids = no_lanes(known.id_count);
    ids.count = known.id_count;
    ids.many = true;
    if (ids.count > 0) memcpy(ids.items, known.ids, sizeof(int64) * ids.count);
    return ids;
}

LaneIds lanes_of_kinds(KnownLanes *known, const core::WorkerFilter &filter) {
    int room = 0;
    for (int i = 0; i < filter.kind_count; i++) {
        complete_kind(known, filter.kinds[i]);
        for (const KnownLane *lane = kind_of(known, filter.kinds[i])->first; lane != nullptr; lane = lane->next_of_kind)
            room++;
    }
    LaneIds ids = no_lanes(room);
    for (int i = 0; i < filter.kind_count; i++)
        for (const KnownLane *lane = kind_of(known, filter.kinds[i])->first; lane != nullptr; lane = lane->next_of_kind)
            if (matches(filter, *lane)) ids.items[ids.count++] = lane->key.number;
    // Removes duplicates, because a filter can contain a kind twice.
    std::sort(ids.items, ids.items + ids.count);
    ids.count = static_cast<int>(std::unique(ids.items, ids.items + ids.count) - ids.items);
    return ids;
}

// Reads the row of a job that this transaction has made claimable, computes the job's lane from the texts in the row,
// and inserts the lane if it is missing. Returns false if this lane is not the lane with the number `lane`.
bool ensure_lane_of_job(int64 lane, int64 job) {
    return with_owner_spi([&] {
        const Rows rows = run(read_job, Params().add(Int64GetDatum(job)));
        const auto array_at = [&](int column) {
            return rows[0].is_null(column) ? nullptr : DatumGetArrayTypeP(rows[0].get(column));
        };
        return rows.size() > 0 && ensure_lane(rows[0].text_at(1), rows[0].text_at(2), rows[0].int32_at(3), array_at(4),
                                              array_at(5)) == lane;
    });
}

bool stays(const KnownLane *lane) { return lane != nullptr && !lane->leaving; }

void settle(int64 lane) {
    settled.xid = GetTopFullTransactionId();
    settled.lane = lane;
}

}  // namespace

Names canonical_requires(ArrayType *required) {
    if (required == nullptr) return {nullptr, 0};
    Names names = names_of(required, "requires", core::kMaxCapabilityBytes, core::kMaxCapabilities);
    names.count = core::canonical_set(names.items, names.count);
    return names;
}

int64 lane_id(std::string_view queue, std::string_view kind, int32 version, ArrayType *required, ArrayType *limits) {
    return lane_number(queue, kind, version, canonical_requires(required), canonical_limits(limits));
}

int64 ensure_lane(std::string_view queue, std::string_view kind, int32 version, ArrayType *required,
                  ArrayType *limits) {
    const int64 id = lane_id(queue, kind, version, required, limits);
    // Assigns the transaction ID before looking up the lane, because lane retirement waits for transactions by ID
    // (lanes/retire.cpp).
    GetTopTransactionId();
    if (!lane_stays(queue, kind, id)) {
        with_owner_spi([&] {
            check_room_for_queue(queue);
            run(insert_lane, Params()
                                 .add(PointerGetDatum(make_text(queue)))
                                 .add(PointerGetDatum(make_text(kind)))
                                 .add(Int32GetDatum(version))
                                 .add_if(required != nullptr, PointerGetDatum(required))
                                 .add_if(limits != nullptr, PointerGetDatum(limits)));
        });
        own_lanes++;
        lanes_changed_at_commit();
        // Looks up the cache entry again, because a user's trigger might have changed the cache.
        add_lane(known_of(queue), id, kind, version, canonical_requires(required), false);
    }
    settle(id);
    return id;
}

bool lane_stays(std::string_view queue, std::string_view kind, int64 lane) {
    KnownLanes *known = known_of(queue);
    if (stays(lane_of(known, lane))) return true;
    complete_kind(known, kind);
    return stays(lane_of(known, lane));
}

bool lane_is_seen_to_stay(std::string_view queue, std::string_view kind, int64 lane) {
    const KnownLanes *known = heard_of(queue);
    if (is_up_to_date(*known) && stays(lane_of(known, lane))) return true;
    const Oid schema = get_namespace_oid("jobq", true);
    for (const char *table : {"lane_directory", "lane_retirement"})
        if (!lock_for_reading(get_relname_relid(table, schema))) return false;
    return lane_stays(queue, kind, lane);
}

void publish_ready(std::string_view queue, int64 lane, const core::ClaimKey &key, bool is_new) {
    const bool is_settled =
        settled.lane == lane && FullTransactionIdEquals(settled.xid, GetTopFullTransactionIdIfAny());
    if (!is_settled) {
        if (stays(lane_of(known_of(queue), lane)) || ensure_lane_of_job(lane, key.id)) settle(lane);
    }
    if (!log_ready(queue, lane, key, is_new)) return;
    core::LaneTraits traits;
    if (traits_of_lane(queue, lane, &traits)) describe_ready_lane(lane, traits);
}

bool traits_of_lane(std::string_view queue, int64 lane, core::LaneTraits *traits) {
    const KnownLane *found = lane_of(known_of(queue), lane);
    if (found == nullptr) return false;
    *traits = core::lane_traits(found->kind, found->version, found->required, found->required_count);
    return true;
}

LaneIds wanted_lanes(std::string_view queue, const core::WorkerFilter &filter) {
    KnownLanes *known = known_of(queue);
    if (filter.kinds != nullptr) return lanes_of_kinds(known, filter);
    put_ids_in_order(known);
    if (known->id_count > kFewLanes) return copy_of_all(*known);
    LaneIds ids = no_lanes(known->id_count);
    for (int i = 0; i < known->id_count; i++)
        if (matches(filter, *lane_of(known, known->ids[i]))) ids.items[ids.count++] = known->ids[i];
    return ids;
}

bool wants_lane(std::string_view queue, int64 lane, const core::WorkerFilter &filter) {
    // Does not process invalidation messages, so that a claim uses the same state of the cache from beginning to end.
    KnownLanes *known = entry_of(queue);
    if (known->context == nullptr || !known->whole) complete_queue(known = known_of(queue));
    const KnownLane *found = lane_of(known, lane);
    return found != nullptr && matches(filter, *found);
}

LaneIds all_lanes(std::string_view queue) {
    KnownLanes *known = known_of(queue);
    put_ids_in_order(known);
    return copy_of_all(*known);
}

uint64 version_of_lanes() {
    on_relation_change<on_relcache_invalidation>();
    AcceptInvalidationMessages();
    // Without the OIDs, any message might be about the lanes.
    if (!OidIsValid(news)) find_relations();
    return changes + changes_of_all + own_lanes;
}

void lanes_changed_at_commit() {
    on_relation_change<on_relcache_invalidation>();
    if (!OidIsValid(news)) find_relations();
    // Sends the invalidation message at the end of the transaction if possible, because deferred triggers might insert
    // more lanes.
    if (log_lanes()) send_news();
}

void invalidate_lanes() {
    on_relation_change<on_relcache_invalidation>();
    find_relations();
    CacheInvalidateRelcacheByRelid(directory);
}

void send_news_of_lanes() {
    // Sends only one invalidation message for all new lanes, because very many messages would make every session
    // discard all its caches.
    if (begin_sending_news()) send_news();
}

void undo_lanes() {
    if (transaction_log().lanes_in != InvalidSubTransactionId) changes_of_all++;
}

void undo_lanes_of_savepoint() {
    settled.lane = 0;
    if (GetCurrentSubTransactionId() <= transaction_log().lanes_in) changes_of_all++;
}

}  // namespace jobq
