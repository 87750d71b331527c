// See empty_ranges.h. If a set of the hash table is full, a new lane evicts an existing lane. The evicted lane is the
// least recently scanned lane of the database that has the most lanes in the set.
#include "compat/pg.h"

#include "compat/settings.h"
#include "lanes/empty_ranges.h"
#include "shmem/database_state.h"
#include "shmem/set_table.h"

namespace jobq {

namespace {

using core::ClaimKey;
using core::EmptyRanges;

// Maximum number of published key ranges that are stored separately for a running scan. Further publications extend the
// last of these ranges.
constexpr int kMaxPublished = 4;
// Time after which a scan is assumed to have ended without a call to finish_refresh(), for example because of an error.
constexpr core::Micros kLongestRefresh = core::kSecond;

struct Published {
    ClaimKey first, last;
};

struct Entry {
    Oid database;  // InvalidOid if the entry is free
    core::KeySpace space;
    int64 lane;
    uint64 epoch;
    TimestampTz refreshed_at;
    uint64 ticket;  // ticket of the running scan; 0 if no scan is running
    TimestampTz ticket_at;
    int published_count;  // number of ranges published since the ticket was issued
    Published published[kMaxPublished];
    ClaimKey expected_end;
    EmptyRanges ranges;
};

using Set = EntrySet<Entry, Part::EmptyRanges>;
using Table = SetTable<Set>;

struct LaneRanges {
    // the next ticket; tickets never repeat, so that a scan notices if its lane was evicted and added again in the
    // meantime
    pg_atomic_uint64 next_ticket;
    Set sets[FLEXIBLE_ARRAY_MEMBER];
};

LaneRanges *known = nullptr;
Table table = {};

int set_count() { return Table::sets_for(settings.max_tracked_lanes); }

Entry *find_entry(Set *set, RangesOf lane) {
    return set->find([lane](const Entry &entry) {
        return entry.database == MyDatabaseId && entry.lane == lane.lane && entry.space == lane.space;
    });
}

// Returns the hash key of a lane. Each key space of the lane has a different hash key, so that the key spaces are
// spread over different sets.
int64 place_of(RangesOf lane) {
    return static_cast<int64>(static_cast<uint64>(lane.lane) +
                              static_cast<uint64>(lane.space) * UINT64CONST(0x9e3779b97f4a7c15));
}

// Returns an empty entry for the lane. If the lane already has an entry, this entry contains the empty ranges of
// another epoch; the function then clears and returns this entry. Otherwise, the function returns a new entry.
Entry *make_entry(Set *set, RangesOf lane, uint64 epoch) {
    Entry *place = find_entry(set, lane);
    if (place == nullptr)
        place =
            set->place(MyDatabaseId, [](const Entry &a, const Entry &b) { return a.refreshed_at < b.refreshed_at; });
    *place = {};
    place->database = MyDatabaseId;
    place->space = lane.space;
    place->lane = lane.lane;
    place->epoch = epoch;
    place->expected_end = core::kLastKey;
    return place;
}

// Calls body(entry, set) under the lock of the set to which the lane belongs. `entry` is nullptr if the lane has no
// entry.
template <typename Body>
auto with_entry(RangesOf lane, LWLockMode mode, Body body) {
    return table.with_set(place_of(lane), mode, [&](Set *set) { return body(find_entry(set, lane), set); });
}

bool is_of(const Entry *entry, uint64 epoch) { return entry != nullptr && entry->epoch == epoch; }

bool touches(const EmptyRanges &ranges, const ClaimKey &first, const ClaimKey &last) {
    for (int i = 0; i < ranges.count; i++)
        if (ranges.items[i].keys.from <= last && first < ranges.items[i].keys.to) return true;
    return false;
}

void note_publication(Entry *entry, const ClaimKey &first, const ClaimKey &last) {
    if (entry->ticket == 0) return;
    if (entry->published_count < kMaxPublished) {
        entry->published[entry->published_count++] = {first, last};
        return;
    }
    Published &widened = entry->published[kMaxPublished - 1];
    if (first < widened.first) widened.first = first;
    if (widened.last < last) widened.last = last;
}

}  // namespace

bool keeps_empty_ranges(uint64 epoch) { return epoch != kNoEpoch && known != nullptr && worker_serves_database(); }

EmptyRanges read_empty_ranges(uint64 epoch, RangesOf lane) {
    if (!keeps_empty_ranges(epoch)) return {};
    return with_entry(lane, LW_SHARED, [epoch](const Entry *entry, Set *) {
        return is_of(entry, epoch) ? entry->ranges : EmptyRanges{};
    });
}

ClaimKey first_possible_key(uint64 epoch, RangesOf lane) {
    if (!keeps_empty_ranges(epoch)) return core::kFirstKey;
    return with_entry(lane, LW_SHARED, [epoch](const Entry *entry, Set *) {
        return is_of(entry, epoch) ? core::skip_empty(entry->ranges, core::kFirstKey) : core::kFirstKey;
    });
}

ClaimKey expected_end(int64 lane) {
    if (known == nullptr) return core::kLastKey;
    return with_entry(lane, LW_SHARED, [](const Entry *entry, Set *) {
        return entry == nullptr ? core::kLastKey : entry->expected_end;
    });
}

void expect_end(int64 lane, const ClaimKey &key) {
    if (known == nullptr) return;
    with_entry(lane, LW_EXCLUSIVE, [&](Entry *entry, Set *) {
        if (entry != nullptr) entry->expected_end = key;
        return true;
    });
}

uint64 begin_refresh(uint64 epoch, RangesOf lane, core::Micros pause) {
    if (!keeps_empty_ranges(epoch)) return 0;
    return with_entry(lane, LW_EXCLUSIVE, [&](Entry *entry, Set *set) -> uint64 {
        const TimestampTz now = GetCurrentTimestamp();
        if (!is_of(entry, epoch)) entry = make_entry(set, lane, epoch);
        const core::Micros age = now - entry->ticket_at;
        if (age >= 0 && age < (entry->ticket != 0 ? kLongestRefresh : pause)) return 0;
        entry->ticket = pg_atomic_add_fetch_u64(&known->next_ticket, 1);
        entry->ticket_at = entry->refreshed_at = now;
        entry->published_count = 0;
        return entry->ticket;
    });
}

void finish_refresh(RangesOf lane, uint64 ticket, const EmptyRanges &found) {
    if (ticket == 0) return;
    with_entry(lane, LW_EXCLUSIVE, [&](Entry *entry, Set *) {
        if (entry == nullptr || entry->ticket != ticket) return false;
        entry->ticket = 0;
        EmptyRanges known = found;
        for (int i = 0; i < entry->published_count; i++)
            core::forget_empty(&known, entry->published[i].first, entry->published[i].last);
        for (int i = 0; i < known.count; i++)
            core::add_empty(&entry->ranges, known.items[i].keys, known.items[i].passed);
        return true;
    });
}

bool is_being_refreshed(RangesOf lane) {
    if (known == nullptr) return false;
    return with_entry(lane, LW_SHARED, [](const Entry *entry, Set *) {
        const TimestampTz now = GetCurrentTimestamp();
        return entry != nullptr && entry->ticket != 0 && now >= entry->ticket_at &&
               now - entry->ticket_at < kLongestRefresh;
    });
}

void publish_keys(RangesOf lane, const ClaimKey &first, const ClaimKey &last) {
    if (known == nullptr) return;
    const bool nothing_to_do = with_entry(lane, LW_SHARED, [&](const Entry *entry, Set *) {
        return entry == nullptr || (entry->ticket == 0 && !touches(entry->ranges, first, last));
    });
    if (nothing_to_do) return;
    with_entry(lane, LW_EXCLUSIVE, [&](Entry *entry, Set *) {
        if (entry == nullptr) return false;
        note_publication(entry, first, last);
        core::forget_empty(&entry->ranges, first, last);
        return true;
    });
}

void forget_empty_ranges() {
    if (known == nullptr) return;
    table.for_each(LW_EXCLUSIVE, [](Entry *entry) { *entry = {}; });
}

int tracked_lanes(uint64 epoch, TrackedLane *held, int room) {
    int count = 0;
    if (epoch == kNoEpoch || known == nullptr) return 0;
    table.for_each(LW_SHARED, [&](const Entry *entry) {
        if (entry->epoch != epoch || count == room) return;
        held[count++] = {{entry->space, entry->lane},
                         core::skip_empty(entry->ranges, core::kFirstKey),
                         entry->ranges.count,
                         entry->refreshed_at};
    });
    return count;
}

int max_tracked_lanes() { return table.room(); }

SharedUsage empty_ranges_usage() { return table.usage(); }

Size empty_ranges_size() { return offsetof(LaneRanges, sets) + sizeof(Set) * set_count(); }

void make_empty_ranges(void *memory, bool fresh) {
    known = static_cast<LaneRanges *>(memory);
    table = {set_count(), known->sets};
    if (!fresh) return;
    pg_atomic_init_u64(&known->next_ticket, 0);
}

}  // namespace jobq
